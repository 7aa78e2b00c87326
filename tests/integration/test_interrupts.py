"""Ctrl-C and SIGTERM at any moment of a command.

These tests try a few moments of each command; JOBFORGE_LONG=1 tries 200 of each, and JOBFORGE_SEED
picks others.
"""

import os
import pty
import random
import select
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pytest
from cluster import Connection, Database, wait_until
from integration.terminal import RunningProgram, Terminal, environment

from jobforge import calls, db
from jobforge.embedded import Embedded
from jobforge.process.interrupts import StopRequest

IS_LONG = "JOBFORGE_LONG" in os.environ
SEED = int(os.environ.get("JOBFORGE_SEED", "1"))
MOMENTS = 200 if IS_LONG else 4
TRAP = Path(__file__).parent / "interrupted_command.py"
ENDS_WITHIN_S = 60
APP = """
from jobforge import JobForge

jf = JobForge()


@jf.job
def isolated() -> None: ...


@jf.job(isolation="inline")
async def inline() -> None: ...
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """When the signal is sent: after a delay, at a function call, or after a line of output."""

    after_s: float | None = None
    call: int | None = None
    line: int | None = None
    signal: int = signal.SIGINT
    again_after_s: float | None = None  # the delay of a second signal
    to_group: bool = True  # to the process group, as a terminal does; otherwise only to the process


@dataclass(frozen=True, slots=True)
class CommandEnd:
    code: int
    output: str


@dataclass(frozen=True, slots=True)
class Command:
    """`started_output` is output after which the command shuts down in its own way."""

    words: tuple[str, ...]
    lasts_s: float
    calls: int
    lines: int = 0
    started_output: str | None = None
    on_terminal: bool = False
    ends_by_itself: bool = False

    def allowed_codes(self, moment: Moment, printed: str) -> set[int]:
        if self.started_output is None:
            return {130, 0} if self.ends_by_itself else {130}
        orderly = {0, 1} if moment.again_after_s is not None else {0}
        if self.started_output in printed:
            return orderly
        return orderly | {130, -signal.SIGTERM if moment.signal == signal.SIGTERM else 130}


WAIT = Command(("enqueue", "mail", "--wait"), lasts_s=1.2, calls=680_000, lines=1)
TAIL = Command(("jobs", "tail", "JOB"), lasts_s=1.2, calls=680_000)
TOP_ONCE = Command(("top", "--once"), lasts_s=0.8, calls=650_000, ends_by_itself=True)
TOP = Command(("top", "--every", "0.2s"), lasts_s=2.0, calls=2_000_000, on_terminal=True)
WORKER = Command(
    ("worker", "app.py"), lasts_s=2.5, calls=850_000, lines=1, started_output='"worker.started"'
)
SERVER = Command(
    ("server", "--port", "0"),
    lasts_s=2.5,
    calls=2_000_000,
    lines=1,
    started_output='"server.listening"',
)
DEV = Command(
    ("dev", "app.py"), lasts_s=5.0, calls=2_000_000, lines=8, started_output="embedded in"
)
COMMANDS = {
    "wait": WAIT,
    "tail": TAIL,
    "top-once": TOP_ONCE,
    "top": TOP,
    "worker": WORKER,
    "server": SERVER,
    "dev": DEV,
}


def _moments(command: Command, name: str) -> Iterator[Moment]:
    chance = random.Random(f"{SEED} {name}")  # noqa: S311 - not used for secrets
    for number in range(MOMENTS):
        moment = Moment(to_group=chance.random() < 0.5)
        match number % 4:
            case 0:
                moment = replace(moment, after_s=chance.uniform(0, command.lasts_s))
            case 1:
                moment = replace(moment, call=chance.randrange(command.calls))
            case 2 if command.lines:
                moment = replace(moment, line=chance.randint(1, command.lines))
            case _:
                moment = replace(moment, after_s=chance.uniform(0, command.lasts_s))
        if command.started_output is not None and number % 4 == 3:
            moment = replace(moment, again_after_s=chance.uniform(0, 0.3))
        elif command.started_output is not None and chance.random() < 0.3:
            moment = replace(moment, call=None, signal=signal.SIGTERM)
            if moment.after_s is None and moment.line is None:
                moment = replace(moment, after_s=chance.uniform(0, command.lasts_s))
        yield moment


@dataclass(frozen=True, slots=True)
class CommandScene:
    """Folder, job and environment of the commands."""

    folder: Path
    job_id: str
    variables: dict[str, str]


@pytest.fixture
def setting(database: Database, conn: Connection, folder: Path) -> CommandScene:
    tenant_id = uuid4()
    db.run(conn, calls.put_tenant(tenant_id, {"slug": "acme"}))
    db.run(conn, calls.put_definition("mail", 1))
    (folder / "app.py").write_text(APP)
    variables = {"JOBFORGE_DATABASE_URL": database.url, "JOBFORGE_TENANT": "acme"}
    job_id = Terminal(folder, **variables).read("enqueue", "mail")
    return CommandScene(folder, job_id, variables)


@pytest.mark.timeout(0 if IS_LONG else 180)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_at_any_moment_ends_the_command(name: str, setting: CommandScene) -> None:
    command = COMMANDS[name]
    seen: Counter[int] = Counter()
    for moment in _moments(command, name):
        ended = _interrupt_command(setting, command, moment)
        reported = f"{moment} → {ended.code}\n{ended.output}"
        assert ended.code in command.allowed_codes(moment, ended.output), reported
        for word in ("Traceback", "KeyboardInterrupt", "Exception ignored", "never awaited"):
            assert word not in ended.output, reported
        if command is DEV:
            assert Embedded(setting.folder / ".jobforge" / "pg").running() is None, reported
        seen[ended.code] += 1
    assert sum(seen.values()) == MOMENTS
    if IS_LONG:
        print(f"{name}: {dict(seen)}")  # noqa: T201 - output of the long run


def _interrupt_command(setting: CommandScene, command: Command, moment: Moment) -> CommandEnd:
    mark = uuid4().hex
    variables = {**setting.variables, "INTERRUPTS_TEST": mark}
    if command is DEV:
        del variables["JOBFORGE_DATABASE_URL"]
    call = -1 if moment.call is None else moment.call
    words = [setting.job_id if word == "JOB" else word for word in command.words]
    received, begun = os.pipe()
    with _output(on_terminal=command.on_terminal) as (stdout, read):
        process = subprocess.Popen(
            [sys.executable, "-u", str(TRAP), str(begun), str(call), *words],
            stdin=stdout if command.on_terminal else subprocess.DEVNULL,
            stdout=stdout,
            stderr=stdout,
            cwd=setting.folder,
            env=environment(**variables, TERM="xterm-256color", COLUMNS="80", LINES="24"),
            pass_fds=(begun,),
            start_new_session=True,
        )
        os.close(begun)
        os.close(stdout)
        try:
            os.read(received, 1)  # from here on, the command handles signals
            _send(process, moment, command, read, received)
            code = process.wait(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{moment}: it goes on\n{read()}")
        finally:
            os.close(received)
            process.kill()
            process.wait()
    wait_until(
        lambda: not _marked_processes(mark),
        why=lambda: f"{moment}: {_marked_processes(mark)} goes on",
    )
    return CommandEnd(code, read())


def _send(
    process: "subprocess.Popen[bytes]",
    moment: Moment,
    command: Command,
    read: Callable[[], str],
    received: int,
) -> None:
    if moment.line is not None:
        enough = moment.line
        wait_until(lambda: read().count("\n") >= enough or process.poll() is not None)
    # An idle command may never make that many calls; a second signal would change what is tested.
    may_take_s = 3 * command.lasts_s + 2
    if moment.call is not None and select.select([received], [], [], may_take_s)[0]:
        return
    if moment.after_s is not None and _has_ended(process, moment.after_s):
        return
    _kill(process, moment)
    if moment.again_after_s is not None and not _has_ended(process, moment.again_after_s):
        _kill(process, replace(moment, signal=signal.SIGINT))


def _has_ended(process: "subprocess.Popen[bytes]", within_s: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=within_s)
    return process.poll() is not None


def _kill(process: "subprocess.Popen[bytes]", moment: Moment) -> None:
    if process.poll() is None:
        (os.killpg if moment.to_group else os.kill)(process.pid, moment.signal)


@contextmanager
def _output(*, on_terminal: bool) -> Iterator[tuple[int, Callable[[], str]]]:
    """Return a descriptor to write to, and the data that was written to it."""
    ours, foreign = pty.openpty() if on_terminal else os.pipe()
    printed: list[bytes] = []

    def listen() -> None:
        with suppress(OSError):  # a terminal without open descriptors
            while piece := os.read(ours, 65_536):
                printed.append(piece)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield foreign, lambda: b"".join(printed).decode(errors="replace")
        thread.join(timeout=ENDS_WITHIN_S)
    finally:
        os.close(ours)


def _marked_processes(mark: str) -> list[str]:
    """Return processes that the command has started, found by their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def test_ctrl_c_works_where_the_shell_ignores_it(setting: CommandScene) -> None:
    """A shell without job control starts background commands like this."""
    shell = Terminal(setting.folder, **setting.variables)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        started = shell.start("enqueue", "mail", "--wait")
        program = started.__enter__()
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        program.wait_for(" created")
        program.signal(signal.SIGINT)
        assert program.wait_for_exit() == 130
    finally:
        started.__exit__(None, None, None)


def _program(body: str) -> "RunningProgram":
    return RunningProgram(
        subprocess.Popen(
            [sys.executable, "-u", "-c", PROLOGUE + body],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
        )
    )


PROLOGUE = """
import os, signal, time
from jobforge.process import interrupts
interrupts.install()
interrupts.raise_on_interrupt()
"""


def test_ctrl_c_within_the_import_system_is_sent_again() -> None:
    """An exception there can leave a module's lock locked, and the next import waits forever."""
    program = _program(
        """
import sys

def interrupt(frame, event, _argument):
    code = frame.f_code
    if "importlib._bootstrap" in code.co_filename and code.co_name == "release":
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)

sys.setprofile(interrupt)
try:
    import wave
    print("imported", flush=True)
    signal.pause()
except KeyboardInterrupt:
    print("interrupted")
    raise SystemExit(130)
"""
    )
    assert program.wait_for_exit() == 130
    program.wait_for("interrupted")
    assert program.output.split() == ["imported", "interrupted"]
    program.close()


def test_ctrl_c_within_a_finalizer_is_sent_again() -> None:
    program = _program(
        """
class Closing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000): pass

Closing()
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
    raise SystemExit(130)
"""
    )
    assert program.wait_for_exit() == 130
    assert program.output == "interrupted\n"
    program.close()


def test_a_library_that_swallows_ctrl_c_does_not_keep_the_command_running() -> None:
    program = _program(
        """
with interrupts.enforce_exit():
    print("waits")
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
"""
    )
    program.wait_for("waits")
    program.signal(signal.SIGINT)
    assert program.wait_for_exit() == 130
    program.close()


def test_the_second_ctrl_c_does_not_wait_for_the_cleanup() -> None:
    program = _program(
        """
try:
    print("waits")
    time.sleep(60)
finally:
    print("cleans up")
    time.sleep(60)
"""
    )
    program.wait_for("waits")
    program.signal(signal.SIGINT)
    program.wait_for("cleans up")
    program.signal(signal.SIGINT)
    assert program.wait_for_exit() == 130
    assert "Traceback" not in program.output
    program.close()


def test_a_stop_request_is_also_set_by_a_signal_that_arrives_meanwhile() -> None:
    request = StopRequest()
    before = signal.signal(signal.SIGALRM, lambda *_: request.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
        for _ in range(20_000):
            request.set()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    request.wait()
    assert request.is_set


def test_ctrl_c_also_works_as_a_key_in_the_screen(setting: CommandScene) -> None:
    ours, foreign = pty.openpty()
    with _reading(ours) as read:
        process = subprocess.Popen(
            [sys.executable, "-m", "jobforge", *TOP.words],
            stdin=foreign,
            stdout=foreign,
            stderr=foreign,
            cwd=setting.folder,
            env=environment(**setting.variables, TERM="xterm-256color", COLUMNS="80", LINES="24"),
        )
        try:
            wait_until(lambda: "queues" in read())
            os.write(ours, b"\x03")
            assert process.wait(timeout=ENDS_WITHIN_S) == 130
        finally:
            process.kill()
            process.wait()
            os.close(foreign)
        wait_until(lambda: "\x1b[?1049l" in read())  # the terminal settings are restored
    os.close(ours)


@contextmanager
def _reading(fd: int) -> Iterator[Callable[[], str]]:
    printed: list[bytes] = []

    def listen() -> None:
        with suppress(OSError):
            while piece := os.read(fd, 65_536):
                printed.append(piece)

    threading.Thread(target=listen, daemon=True).start()
    yield lambda: b"".join(printed).decode(errors="replace")
