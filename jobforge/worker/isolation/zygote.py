"""The fork server (zygote): a process that has only imported the app, and forks a child per job.

The worker starts it (zygote_client.py) and sends it requests over one socket. It has one thread and
no database connection, so that a fork is safe and cheap. It never sees a payload, which the worker
sends directly to the child. When the worker ends, it kills its descendants (children.py) and exits.
"""

import contextlib
import gc
import io
import os
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from os import close
from pathlib import Path
from resource import struct_rusage
from signal import set_wakeup_fd
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

from jobforge.errors import JobForgeError, Json
from jobforge.observability import tracing
from jobforge.process.hardening import forbid_inspection
from jobforge.redact import log_scope, redact_text
from jobforge.sdk.app import JobForge
from jobforge.sdk.command import Command, add_commands
from jobforge.sdk.definition_settings import ProcessLimits
from jobforge.sdk.loader import load_app
from jobforge.worker.isolation import environment, limits, proc
from jobforge.worker.isolation.channel import EX_SOFTWARE
from jobforge.worker.isolation.child import (
    SIG_DFL,
    SIGCHLD,
    SIGUSR2,
    ChildSetup,
    Definitions,
    become_job,
    run_job,
    set_signal,
)
from jobforge.worker.isolation.children import Child, ChildTable
from jobforge.worker.isolation.environment import JobVariables
from jobforge.worker.isolation.fast_fork import ForkHooks, choose_fork
from jobforge.worker.isolation.frames import (
    REQUEST_SIZE,
    ChildExit,
    ExceededLimit,
    FrameDecoder,
    FrameKind,
    Op,
    ZygoteRequest,
    encode_frame,
)
from jobforge.worker.isolation.landlock import Landlock
from jobforge.worker.isolation.levels import set_up_isolation
from jobforge.worker.isolation.limits import Rlimits
from jobforge.worker.isolation.warmup import warm_up

if TYPE_CHECKING:
    from jobforge.worker.isolation.sandbox import Sandboxes

_FD = struct.calcsize("i")
_SPACE_FOR_FDS = socket.CMSG_SPACE(3 * _FD)
# Received descriptors are closed on exec (Linux only), so that a program that a job becomes or runs
# cannot send frames to the worker.
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Zygote:
    def __init__(  # noqa: PLR0913 - one parameter for each component that it uses
        self,
        definitions: Definitions,
        worker: socket.socket,
        folder: str,
        fork: Callable[[], int],
        landlock: Landlock,
        *,
        sandboxes: "Sandboxes | None" = None,
        processes: int,
    ) -> None:
        self._definitions = definitions
        self._landlock = landlock
        self._fork = fork
        self._sandboxes = sandboxes
        self._worker = worker
        self._folder = folder
        self._variables = JobVariables(folder)
        self._pid = os.getpid()
        self._data_in_use = limits.read_data_in_use()
        self._limits_cache: dict[tuple[int | str, ...], tuple[ProcessLimits, Rlimits]] = {}
        self._children = ChildTable(sandboxes, processes)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_fd = self._wake_reader.fileno()
        self._own_fds = [end.fileno() for end in (worker, self._wake_reader, self._wake_writer)]
        self._poll = select.poll()
        self._poll.register(worker, select.POLLIN)
        self._poll.register(self._wake_reader, select.POLLIN)

    def serve(self) -> None:
        """Serve requests until the worker ends, then kill all descendants."""
        self._listen_to_signals()
        try:
            while self._step():
                pass
        finally:
            self._children.kill_all()

    def _listen_to_signals(self) -> None:
        for end in (self._wake_reader, self._wake_writer):
            end.setblocking(False)  # noqa: FBT003 - its only argument
        # A byte on the socket wakes the poll; the handlers have nothing to do.
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGUSR2):
            signal.signal(number, _ignore_signal)
        # A service manager may signal all processes of the worker; the worker ends its zygote.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        # Children start with SIGTERM blocked, and receive a pending one when they unblock it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _step(self) -> bool:
        """Wait for requests and ended children; return False if the worker has ended."""
        timeout_s = self._children.next_check_s()
        for fd, _ in self._poll.poll(None if timeout_s is None else timeout_s * 1000 + 1):
            if fd != self._wake_fd:
                if not self._receive_request():
                    return False
            elif SIGUSR2 in os.read(fd, 4096):  # the worker has died
                return False
            else:
                self._reap()
        self._children.run_checks()
        return True

    def _reap(self) -> None:
        for child, status, usage in self._children.reap():
            self._send_exit(_make_child_exit(child, status, usage))
            self._remove_folder(child.folder)

    def _receive_request(self) -> bool:
        data, ancillary, _, _ = self._worker.recvmsg(REQUEST_SIZE, _SPACE_FOR_FDS, _CLOSE_ON_EXEC)
        fds = _extract_fds(ancillary)
        while data and len(data) < REQUEST_SIZE:
            rest = self._worker.recv(REQUEST_SIZE - len(data))
            data = data + rest if rest else b""
        if not data:
            return False
        self._handle_request(ZygoteRequest.unpack(data), fds)
        return True

    def _handle_request(self, request: ZygoteRequest, fds: list[int]) -> None:
        if request.op == Op.FORK:
            self._fork_job(request, fds)
            return
        if request.op == Op.ECHO:
            self._send(encode_frame(FrameKind.ECHO))
            return
        child = self._children.get(request.run)
        if child is None:  # the child has ended in the meantime
            return
        match request.op:
            case Op.SIGNAL:
                os.kill(child.pid, request.signal)
            case Op.SIGNAL_GROUP:
                if not proc.signal_group(child.pid, request.signal):
                    os.kill(child.pid, request.signal)  # the child has not created its group yet
            case Op.KILL:
                self._children.kill(child)

    def _fork_job(self, request: ZygoteRequest, fds: list[int]) -> None:
        folder = f"{self._folder}/{request.run}"
        allowed, rlimits = self._limits_cache.get(request[3:7]) or self._compute_limits(request)
        # Written before the fork: in the child, each page that is written to is copied first.
        self._variables.set(folder, request.mark)
        mark = environment.encode_mark(request.mark)
        self._landlock.prepare()
        started = proc.now()
        sandbox = None
        try:
            if self._sandboxes is None:
                pid = self._fork()
            else:
                sandbox = self._sandboxes.acquire(allowed)
                pid = self._sandboxes.fork(sandbox)
        except OSError as error:
            self._send_exit(ChildExit(request.run, 0, error.errno or 0, 0, 0, ExceededLimit.NONE))
            if self._sandboxes is not None and sandbox is not None:
                self._sandboxes.kill(sandbox)
                self._sandboxes.release(sandbox, ())
        else:
            if pid == 0:
                setup: ChildSetup = self._pid, folder, mark, rlimits, sandbox, self._landlock
                self._run_child(setup, allowed, fds)
            child = Child(request.run, pid, request.mark, folder, allowed, started, sandbox)
            self._children.add(child)
        for fd in fds:
            close(fd)

    def _compute_limits(self, request: ZygoteRequest) -> tuple[ProcessLimits, Rlimits]:
        """Compute and cache the limits of jobs with the same limits as this request's."""
        allowed = request.limits
        allowance = allowed, limits.rlimits_from_limits(allowed, self._data_in_use)
        self._limits_cache[request[3:7]] = allowance
        return allowance

    def _run_child(self, setup: ChildSetup, allowed: ProcessLimits, fds: list[int]) -> NoReturn:
        code = EX_SOFTWARE
        try:
            set_wakeup_fd(-1)
            set_signal(SIGCHLD, SIG_DFL)
            set_signal(SIGUSR2, SIG_DFL)
            for fd in self._own_fds:
                close(fd)
            if self._sandboxes is not None:
                for fd in self._sandboxes.fds:
                    close(fd)
            control, stdout, stderr = fds
            become_job(setup, stdout, stderr)
            code = run_job(self._definitions, control, allowed)
        except BaseException:  # noqa: BLE001 - a child must never return to the zygote's loop
            with contextlib.suppress(Exception):
                traceback.print_exc()
        finally:
            os._exit(code)

    def _send_exit(self, ended: ChildExit) -> None:
        self._send(encode_frame(FrameKind.ENDED, ended.pack()))

    def _send(self, frame: bytes) -> None:
        try:  # noqa: SIM105 - contextlib.suppress is more pages to copy after a fork
            self._worker.sendall(frame)
        except OSError:
            pass  # the worker has ended, and the next read returns that too

    def _remove_folder(self, folder: str) -> None:
        try:
            os.rmdir(folder)  # noqa: PTH106 - cheaper than a Path for every job
        except FileNotFoundError:
            return
        except OSError:
            self._remove_in_fork(folder)

    def _remove_in_fork(self, folder: str) -> None:
        """Remove the folder in a separate process, because a job may leave thousands of files."""
        # Imported before the fork, so only once; most zygotes never need it.
        from jobforge.worker.isolation.remove_tree import remove_tree  # noqa: PLC0415 - rarely needed

        try:
            pid = self._fork()
        except OSError:
            return
        if pid:
            self._children.add_helper(pid)
            return
        try:
            signal.set_wakeup_fd(-1)
            remove_tree(folder)
        finally:
            os._exit(0)


def _ignore_signal(_number: int, _frame: FrameType | None) -> None:
    """Do nothing.

    A module-level function, because a child that replaces the handler would deallocate a closure.
    """


def _make_child_exit(child: Child, status: int, usage: struct_rusage) -> ChildExit:
    cpu_s = usage.ru_utime + usage.ru_stime
    exceeded = child.exceeded or _find_exceeded_limit(status, cpu_s, child.limits)
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return ChildExit(child.run, child.pid, status, peak, int(cpu_s * 1000), exceeded)


def _find_exceeded_limit(status: int, cpu_s: float, allowed: ProcessLimits) -> ExceededLimit:
    """Return the limit for which the kernel killed the process."""
    if status == 0 or not os.WIFSIGNALED(status):
        return ExceededLimit.NONE
    match os.WTERMSIG(status):
        case signal.SIGXCPU:
            return ExceededLimit.CPU
        case signal.SIGXFSZ:
            return ExceededLimit.FILE_SIZE
        case signal.SIGKILL if allowed.cpu_s and cpu_s > allowed.cpu_s:
            return ExceededLimit.CPU
    return ExceededLimit.NONE


def _extract_fds(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds = [*struct.unpack_from(f"{len(data) // _FD}i", data)]
            if not _CLOSE_ON_EXEC:
                for fd in fds:
                    os.set_inheritable(fd, False)  # noqa: FBT003 - the signature of os.set_inheritable
            return fds
    return []


def main() -> None:
    worker = socket.socket(fileno=int(sys.argv[1]))
    forbid_inspection()
    # While the app is imported, nothing polls the socket, so the signal has to end this process.
    signal.signal(signal.SIGUSR2, lambda _number, _frame: sys.exit(EX_SOFTWARE))
    limits.die_with_parent(signal.SIGUSR2)
    environment.find_mark_slot()
    setup = _receive_setup(worker)
    try:
        zygote = _build_zygote(setup, worker)
        level, lack = setup["chosen"]
        ready = {"threads": _list_extra_threads(), "level": level.label, "lack": lack}
        worker.sendall(encode_frame(FrameKind.READY, orjson.dumps(ready)))
        zygote.serve()
    except BrokenPipeError:
        sys.exit(EX_SOFTWARE)
    finally:
        from jobforge.worker.isolation.remove_tree import remove_tree  # noqa: PLC0415 - see _remove_in_fork

        remove_tree(setup["folder"])


def _build_zygote(setup: dict[str, Json], worker: socket.socket) -> Zygote:
    hooks = ForkHooks()
    processes = setup["job_processes"]
    try:
        sandboxes, setup["chosen"] = set_up_isolation(setup)
        # The worker has imported the app too, and shown its output.
        with hooks.watch_registrations():
            with _silence():
                app = load_app(setup["target"])
            definitions = _prepare_definitions(app, setup)
        if setup["is_traced"]:
            # Not watched: the hooks of the SDK do nothing after the warm-up.
            tracing.prepare_child_tracing()
        warm_up(app.client)
    except Exception as error:  # noqa: BLE001 - any error is sent to the worker
        worker.sendall(encode_frame(FrameKind.FAILED, orjson.dumps(_describe_error(error))))
        sys.exit(EX_SOFTWARE)
    _prepare_process(setup["job_environment"])
    landlock = Landlock([Path(path) for path in setup["secret_files"]])
    fork = choose_fork(hooks)
    if sandboxes is not None:
        sandboxes.set_fork(fork)
    zygote = Zygote(
        *(definitions, worker, setup["folder"], fork, landlock),
        sandboxes=sandboxes,
        processes=processes,
    )
    # Frozen last, so that no child's garbage collector writes to shared pages (copy-on-write).
    gc.collect()
    gc.freeze()
    return zygote


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with (
        open(os.devnull, "w", encoding="utf-8") as devnull,  # noqa: PTH123 - os.devnull is a string
        contextlib.redirect_stdout(devnull),
        contextlib.redirect_stderr(devnull),
    ):
        yield


def _receive_setup(worker: socket.socket) -> dict[str, Json]:
    frames = FrameDecoder()
    while data := worker.recv(65_536):
        for kind, body in frames.feed(data):
            if kind is FrameKind.SETUP:
                return dict(orjson.loads(body))
    sys.exit(EX_SOFTWARE)


def _prepare_definitions(app: JobForge, setup: dict[str, Json]) -> Definitions:
    add_commands(app.command, setup["commands"])
    for definition in app.definitions.values():
        # Computed here once, and not in every child.
        _ = definition.parameters, definition.result
        if isinstance(definition, Command):
            import_module("shutil")
        if definition.settings.isolation == "process" and (
            definition.is_async or definition.start_hooks
        ):
            import_module("jobforge.worker.isolation.async_handler")
    return app.definitions


def _prepare_process(names: Iterable[str]) -> None:
    """Set up once what all children inherit: environment, umask, limits, output buffering."""
    environment.restrict_environment(names)
    os.umask(0o077)
    limits.set_no_new_privileges()
    limits.forbid_core_dumps()
    limits.become_subreaper()
    tempfile: Any = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = None  # each child has a different one
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def _list_extra_threads() -> list[str]:
    """Return the names of threads that the app has started.

    It should not: a fork does not have these threads, but may inherit locks that they hold.
    """
    others = set(threading.enumerate()) - {threading.main_thread()}
    return sorted(thread.name for thread in others)


def _describe_error(error: Exception) -> dict[str, Json]:
    if isinstance(error, JobForgeError):
        return {"message": redact_text(error.message, log_scope()), "hint": error.hint}
    message = "".join(traceback.format_exception(error))
    return {"message": redact_text(message, log_scope()), "hint": None}


if __name__ == "__main__":
    main()
