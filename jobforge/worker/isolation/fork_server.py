"""The loop of the zygote: fork a child per job, signal and kill jobs, report those that have ended.

The process has one thread and no database connection, so that a fork is safe and cheap. It never
sees a payload, which the worker sends directly to the child. When the worker ends, the loop kills
all descendants (children.py) and returns.
"""

import contextlib
import os
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from os import close
from resource import struct_rusage
from signal import set_wakeup_fd
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from jobforge.sdk.definition_settings import ProcessLimits
from jobforge.sdk.lifecycle import ProcessHooks
from jobforge.worker.clock import now
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
from jobforge.worker.isolation.frames import (
    REQUEST_SIZE,
    ChildExit,
    ExceededLimit,
    FrameKind,
    Op,
    ZygoteRequest,
    encode_frame,
)
from jobforge.worker.isolation.landlock import Landlock
from jobforge.worker.isolation.limits import Rlimits

if TYPE_CHECKING:
    from jobforge.worker.isolation.sandbox import Sandboxes

_FD = struct.calcsize("i")
_SPACE_FOR_FDS = socket.CMSG_SPACE(3 * _FD)
# Received descriptors are closed on exec (Linux only), so that a program that a job becomes or runs
# cannot send frames to the worker.
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class ForkServer:
    def __init__(  # noqa: PLR0913 - one parameter for each component that it uses
        self,
        definitions: Definitions,
        worker: socket.socket,
        folder: str,
        fork: Callable[[], int],
        landlock: Landlock,
        *,
        process_hooks: ProcessHooks,
        sandboxes: "Sandboxes | None" = None,
        processes: int,
    ) -> None:
        self._definitions = definitions
        # None without hooks, so that no child touches the object.
        self._process_hooks = process_hooks if process_hooks.start or process_hooks.stop else None
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
        started = now()
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
            code = run_job(self._definitions, control, allowed, self._process_hooks)
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
