"""An app whose jobs describe their process, wait, and misbehave. Zygotes import it."""

import asyncio
import ctypes
import mmap
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from jobforge import Cancel, Context, JobForge, Retry
from jobforge.sdk.call_context import find_process_channel
from jobforge.sdk.engine_client import complete
from jobforge.worker.isolation.channel import SocketChannel
from jobforge.worker.isolation.frames import FrameKind, encode_frame

jf = JobForge()

MIB = 1024**2
AT_IMPORT = dict(os.environ)
NO_TEXT = "\0\ud800"


# Ordinary jobs


@jf.job
def add(a: int, b: int) -> int:
    return a + b


@jf.job
async def add_async(ctx: Context, a: int, b: int) -> int:
    await ctx.progress(1, 2, "half")
    await asyncio.sleep(0)
    return a + b


@jf.job
def read_variable(name: str, *, is_wrapped: bool = False) -> str:
    if not is_wrapped:
        return os.environ[name]
    try:
        return os.environ[name]
    except KeyError:
        raise RuntimeError("The shop is not configured")  # noqa: B904 - as applications do


@jf.job
def look_up() -> int:
    return {"PATH": 1}["SHOP_URL"]


@jf.job
def describe(ctx: Context) -> dict[str, Any]:
    """Describe the process from within."""
    umask = os.umask(0o077)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return {
        "environ": dict(os.environ),
        "shown": Path("/proc/self/environ").read_text(encoding="utf-8").strip("\0"),
        "cwd": str(Path.cwd()),
        "cwd_mode": Path.cwd().stat().st_mode & 0o777,
        "tempdir": tempfile.gettempdir(),
        "umask": umask,
        "stdin": sys.stdin.read(),
        "session": os.getsid(0),
        "pid": os.getpid(),
        "parent": os.getppid(),
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "no_new_privs": "NoNewPrivs:\t1" in status,
        "oom": Path("/proc/self/oom_score_adj").read_text(encoding="ascii").strip(),
        "threads": threading.active_count(),
        "random": random.getrandbits(64),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "mark": ctx.fence,
    }


@jf.job
def tell(ctx: Context) -> None:
    ctx.progress(1, 10, "begun")
    ctx.log.info("sent", to="ada", when=Path("x"))
    ctx.log.error("not sent")
    ctx.emit("mail.sent", {"id": 7})
    sys.stdout.write("to stdout\n")
    sys.stderr.write("to stderr\n")


@jf.job
async def walk(ctx: Context) -> None:
    """Run a step, a child, and a wait within a task group."""
    assert await ctx.astep("measure", len, "text") == len("text")
    await asyncio.gather(ctx.aenqueue(add, 1, 2), return_exceptions=True)
    async with asyncio.TaskGroup() as group:
        group.create_task(_wait(ctx))


async def _wait(ctx: Context) -> None:
    await ctx.wait_for_event("word", {"to.id": 7}, timeout=60)


@jf.job
def echo(value: Any) -> Any:
    return value


@jf.job
def show(text: str) -> None:
    sys.stdout.buffer.write(text.encode("latin-1"))


@jf.job
def tell_secret(ctx: Context, name: str) -> str:
    return ctx.secret(name)


@jf.job
def spread(numbers: list[int]) -> list[str]:
    return [add.using(key=f"n{number}").enqueue(number, number).status for number in numbers]


@jf.job
def enqueue_for_long(timeout: int) -> None:
    add.using(timeout=timeout).enqueue(1, 1)


@jf.job
def fail(message: str) -> None:
    raise RuntimeError(message)


@jf.job
def ask_for_later(message: str) -> None:
    raise Retry(message + NO_TEXT, after=600)


@jf.job
def give_up(message: str) -> None:
    raise Cancel(message + NO_TEXT)


@jf.job
def enqueue_for(tenant: str) -> None:
    with jf.tenant(tenant):
        add.enqueue(1, 1)


@jf.job
def name_tenant() -> str:
    return str(complete(jf.client.find_tenant(jf.client.blocking, None)))


@jf.job
def interrupt_program() -> int:
    with subprocess.Popen(["/bin/sleep", "600"]) as program:
        program.send_signal(signal.SIGINT)
        return program.wait()


@jf.job
def recall_environment() -> dict[str, str]:
    return AT_IMPORT


@jf.job
def tell_half_a_character(ctx: Context) -> None:
    name = os.fsdecode(b"caf\xe9")
    ctx.progress(1, 2, name)
    ctx.log.info("read", name=name)


@jf.job
def tell_much(ctx: Context) -> None:
    for value in ("x" * MIB, ["x"] * MIB):
        ctx.log.info("answered", status=200, body=value)


@jf.job
def replace_output() -> str:
    sys.stdout = None
    setattr(sys, "stderr", object())  # noqa: B010 - type checkers refuse the assignment
    return "still here"


@jf.job
async def await_the_cancelled() -> None:
    waiting = asyncio.create_task(asyncio.sleep(600))
    await asyncio.sleep(0)
    waiting.cancel()
    await waiting


@jf.job
def leave_a_pool() -> str:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        reading, writing = multiprocessing.Pipe(duplex=False)
        pool.apply_async(_say_and_pause, (writing,))
        reading.recv()
    return "left"


def _say_and_pause(writing: Connection) -> None:
    writing.send("up")
    while True:
        signal.pause()


@jf.job
def leave_read_only_folders(outside: str) -> str:
    inner = Path.cwd() / "go" / "mod"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    (inner / "outside").symlink_to(outside)
    inner.chmod(0o000)
    inner.parent.chmod(0o500)
    return str(Path.cwd())


@jf.job
def leave_files(ctx: Context) -> str:
    (Path.cwd() / "a" / "b").mkdir(parents=True)
    (Path.cwd() / "a" / "b" / "file").write_text(ctx.fence, encoding="utf-8")
    return str(Path.cwd())


# Jobs that wait until they are stopped, or until a byte arrives in a FIFO


@jf.job
def wait(ctx: Context, fifo: str) -> str:
    ctx.progress(1)
    with Path(fifo).open("rb", buffering=0) as gate:
        gate.read(1)
    return "unhurt"


@jf.job(grace=20)
def heed(ctx: Context) -> str:
    ctx.progress(1)
    while not ctx.cancelled:
        time.sleep(0.001)
    return "cleaned up"


@jf.job(grace=20)
def heed_by_check(ctx: Context) -> None:
    ctx.progress(1)
    while True:
        ctx.check()
        time.sleep(0.001)


@jf.job(grace=2)
def wait_blindly(ctx: Context) -> None:
    ctx.progress(1)
    try:
        while True:
            signal.pause()
    finally:
        sys.stdout.write("interrupted\n")


@jf.job(grace=2)
async def wait_blindly_async(ctx: Context) -> None:
    await ctx.progress(1)
    try:
        await asyncio.Event().wait()
    finally:
        sys.stdout.write("interrupted\n")


@jf.job(grace=0.2)
def resist(ctx: Context) -> None:
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    ctx.progress(1)
    while True:
        signal.pause()


@jf.job(grace=0.2)
def multiply(ctx: Context, processes: int) -> None:
    """Start processes in separate sessions, whose parents have exited."""
    reading, writing = os.pipe()
    for _ in range(processes):
        between = os.fork()
        if between == 0:
            os.setsid()
            if os.fork() != 0:
                os._exit(0)
            os.write(writing, b".")
            while True:
                signal.pause()
        os.waitpid(between, 0)  # the test counts the processes, and this one must have exited
    there = 0
    while there < processes:
        there += len(os.read(reading, 4096))
    ctx.progress(1)
    while True:
        signal.pause()


# Jobs that no process should survive


@jf.job
def segfault() -> None:
    ctypes.string_at(0)


@jf.job
def exit_at_once() -> None:
    os._exit(3)


@jf.job
def exit_politely() -> None:
    sys.exit(4)


@jf.job
def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@jf.job(memory="256MB")
def take_memory(size: int) -> int:
    return len(bytearray(size * MIB))


@jf.job(memory="16MB")
def take_payload(text: str) -> int:
    return len(text)


@jf.job(memory="256MB")
def take_shared_memory(size: int) -> None:
    taken = mmap.mmap(-1, size * MIB)
    for page in range(0, size * MIB, mmap.PAGESIZE):
        taken[page] = 1
    while True:
        signal.pause()


@jf.job(memory="256MB")
def take_memory_in_children(size: int, children: int) -> None:
    for _ in range(children):
        if os.fork() == 0:
            taken = bytearray(size * MIB)
            while taken:
                signal.pause()
    while True:
        signal.pause()


@jf.job(cpu=1)
def spin() -> None:
    while True:
        pass


@jf.job(cpu=1)
def spin_on() -> None:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        pass


@jf.job(file_size="1MB")
def write_much() -> None:
    Path("much").write_bytes(bytes(2 * MIB))


@jf.job
def close_output() -> str:
    os.close(1)
    os.close(2)
    return "still here"


@jf.job
def close_everything() -> None:
    os.closerange(0, 1024)


@jf.job
def speak_out_of_turn() -> None:
    for fd in range(3, 32):
        try:
            os.write(fd, b"\xff" * 64)
        except OSError:
            continue


@jf.job
def forge(kind: int, body: str) -> None:
    """Send this in place of the verdict."""
    channel = find_process_channel()
    assert isinstance(channel, SocketChannel)
    channel.send(FrameKind(kind), body.encode())
    os._exit(0)


@jf.job
def forge_behind_a_flood(body: str) -> None:
    """Send a flood first: when the worker has read it, this process has exited."""
    channel = find_process_channel()
    assert isinstance(channel, SocketChannel)
    slow = b'{"kind": "add_nodes", "nodes": [' + b'{"a": 1},' * 2 * MIB + b"1]}"
    many = encode_frame(FrameKind.NOTE, b'{"kind": "progress", "data": {}}') * 3000
    channel._write(  # noqa: SLF001 - without flushing
        encode_frame(FrameKind.REQUEST, slow)
        + many
        + encode_frame(FrameKind.VERDICT, body.encode())
    )
    os._exit(0)


@jf.job
def ask_and_never_listen() -> None:
    channel = find_process_channel()
    assert isinstance(channel, SocketChannel)
    for _ in range(500):
        channel.send(FrameKind.REQUEST, b'{"kind": "parents"}')
    signal.pause()


@jf.job
def ask_at_once(questions: int) -> None:
    """Send requests without waiting for responses, so that none stays in this process."""
    channel = find_process_channel()
    assert isinstance(channel, SocketChannel)
    one = encode_frame(FrameKind.REQUEST, b'{"kind": "parents"}')
    channel._write(one * questions)  # noqa: SLF001 - without flushing
    signal.pause()


@jf.job
def log_lines(ctx: Context, count: int) -> None:
    for number in range(count):
        ctx.log.info("line", number=number)


@jf.job
def log_until(ctx: Context, file: str) -> None:
    """Write log lines as fast as possible until the file exists."""
    while not Path(file).exists():
        for _ in range(1_000):
            ctx.log.info("flood")


@jf.job
def take_descriptors(pid: int) -> list[int]:
    """Return the errors of taking a descriptor of that process, by pidfd_getfd and by ptrace."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = libc.syscall(434, pid, 0)
    calls = (
        partial(libc.syscall, 438, pidfd, 0, 0),
        partial(libc.ptrace, ctypes.c_long(0x4206), pid, None, None),
    )
    return [ctypes.get_errno() if call() < 0 else 0 for call in calls]


@jf.job
def count_parents(ctx: Context) -> int:
    return len(ctx.parents)


@jf.job
def flood(size: int) -> None:
    piece = b"0123456789abcdef" * 4096
    for _ in range(size * MIB // len(piece)):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.write(b"the end")


@jf.job
def leave_daemon(*, hide: bool) -> int:
    """Return the PID of a process that has left the tree and keeps the job's output open."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        daemon = os.fork()
        if daemon:
            os._exit(0)
        os.write(writing, str(os.getpid()).encode())
        os.close(writing)
        if hide:
            os.execve("/bin/sh", ["sh", "-c", "read line < /dev/zero"], {})
        while True:
            signal.pause()
    os.close(writing)
    return int(os.read(reading, 20))


@jf.job
def leave_program() -> int:
    """Return the PID of a process that keeps the job's output open, in the job's own group."""
    return subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]).pid


@jf.job
def return_much(size: int) -> str:
    return "x" * (size * MIB)


@jf.job
def return_no_json() -> Any:
    return {object()}


@jf.job
def return_nan() -> float:
    return float("nan")


@jf.job
def kill_parent() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    while True:
        signal.pause()


# Commands

jf.command(
    "say",
    argv=["printf", "--", "%s|%s|", "{first}", "{second}"],
    parameters={
        "properties": {"first": {"type": "string"}, "second": {"type": ["number", "boolean"]}},
        "required": ["first", "second"],
    },
)
jf.command("print_text", argv=["printf", "%s\\n", "{text}"], returns_stdout=True)
jf.command("leave", argv=["sh", "-c", "echo out; echo err >&2; exit 7"])
jf.command("missing", argv=["there-is-no-such-program"])
jf.command("folder", argv=["/"])
jf.command("forbidden", argv=["true"])
jf.command(
    "wait_long",
    argv=["sh", "-c", "trap 'echo asked; exit 5' TERM; echo up > $0; sleep 600 & wait", "{fifo}"],
)
jf.command("sleep", argv=["sleep", "600"], grace=3)
jf.command("list_descriptors", argv=["sh", "-c", "ls /proc/$$/fd"])
jf.command("tell_environment", argv=["env"])
jf.command("hog", argv=["python3", "-c", "b = bytearray(512 * 1024 * 1024)"], memory="256MB")
