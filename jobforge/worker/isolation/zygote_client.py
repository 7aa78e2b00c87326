"""The worker's client of its zygote: start it, send it requests, restart it when it dies.

Jobs may run as the same user and could suspend the zygote. So the client sends an echo request
every few seconds. A zygote that does not respond gets SIGCONT, and is killed if that does not help.
"""

import array
import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from jobforge.config.settings import JOB_PROCESSES, JOB_USER_RANGE
from jobforge.errors import ConfigError, Json
from jobforge.observability import logs
from jobforge.timing.backoff import ExponentialBackoff
from jobforge.worker.isolation import environment
from jobforge.worker.isolation.frames import (
    ChildExit,
    FrameDecoder,
    FrameKind,
    Op,
    ZygoteRequest,
    encode_frame,
)
from jobforge.worker.isolation.remove_tree import remove_tree

_READ = 65_536
_CLOSING_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0
_CHECK_INTERVAL_S = 5.0
# The zygote is killed after this many consecutive checks without a response.
_MAX_MISSED_CHECKS = 4


@dataclass(frozen=True, slots=True)
class ZygoteSettings:
    """The settings with which a zygote is started."""

    target: str
    environment: Mapping[str, str]
    job_environment: Sequence[str]
    secret_files: Sequence[Path]
    commands: Mapping[str, Mapping[str, Json]]
    is_traced: bool
    isolation_level: str = "auto"
    job_user_range: tuple[int, int] = JOB_USER_RANGE
    job_processes: int = JOB_PROCESSES


class ZygoteClient:
    """The zygote and the queue of requests to it.

    It calls `on_lost` when the zygote has died, and with it all runs that were sent to it;
    `has_unsent` returns whether a run was not sent.
    """

    def __init__(
        self,
        settings: ZygoteSettings,
        *,
        on_exit: Callable[[ChildExit], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._on_exit = on_exit
        self._on_lost = on_lost
        self._connection: _ZygoteConnection | None = None
        self._restart: asyncio.Task[None] | None = None
        self._next_check: asyncio.TimerHandle | None = None
        self._unsent: deque[tuple[ZygoteRequest, Sequence[int]]] = deque()
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        return self._connection.program.pid if self._connection else None

    @property
    def level(self) -> str | None:
        """The isolation level that the zygote has chosen."""
        return self._connection.level if self._connection else None

    async def open(self) -> None:
        """Start the zygote. Raises ConfigError if it cannot import the app."""
        self._connection = await self._connect()
        self._flush()
        self._schedule_check()

    async def close(self) -> None:
        self._is_closed = True
        if self._next_check is not None:
            self._next_check.cancel()
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.wait([self._restart])
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        while self._unsent:
            _close_fds(self._unsent.popleft()[1])

    def send(self, request: ZygoteRequest, fds: Sequence[int] = ()) -> None:
        """Send the request, and close the descriptors once it is sent.

        Requests keep their order, and wait while the zygote restarts or the socket is full.
        """
        self._unsent.append((request, fds))
        if len(self._unsent) == 1:
            self._flush()

    def has_unsent(self, run: int) -> bool:
        """Whether the run has not been sent yet."""
        return any(request.op == Op.FORK and request.run == run for request, _ in self._unsent)

    def withdraw(self, run: int) -> bool:
        """Remove a run's fork request from the queue; return False if it has been sent."""
        for entry in self._unsent:
            request, fds = entry
            if request.op == Op.FORK and request.run == run:
                self._unsent.remove(entry)
                _close_fds(fds)
                return True
        return False

    def _flush(self) -> None:
        while self._unsent and self._connection is not None:
            request, fds = self._unsent[0]
            if not self._connection.send(request.pack(), fds):
                return
            self._unsent.popleft()
            _close_fds(fds)

    def _schedule_check(self) -> None:
        self._next_check = asyncio.get_running_loop().call_later(
            _CHECK_INTERVAL_S, self._check_zygote
        )

    def _check_zygote(self) -> None:
        if self._connection is not None and self._connection.check_alive():
            self.send(ZygoteRequest(Op.ECHO, 0))
        self._schedule_check()

    async def _connect(self) -> "_ZygoteConnection":
        connection = _ZygoteConnection(
            self._settings, on_exit=self._on_exit, on_writable=self._flush
        )
        try:
            await connection.wait_until_ready()
        except BaseException:
            await connection.close()
            raise
        connection.on_lost = self._on_connection_lost
        return connection

    def _on_connection_lost(self) -> None:
        if self._is_closed or self._connection is None:
            return
        self._connection.discard()
        self._connection = None
        logs.emit("zygote.lost", level="error")
        # Other requests are for runs of the old zygote, which the new one does not know.
        self._unsent = deque(entry for entry in self._unsent if entry[0].op == Op.FORK)
        self._on_lost()
        self._restart = asyncio.get_running_loop().create_task(self._restart_zygote())

    async def _restart_zygote(self) -> None:
        backoff = ExponentialBackoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            try:
                self._connection = await self._connect()
            except Exception as error:  # noqa: BLE001 - after any error jobs wait for the next restart
                logs.emit("zygote.failed", level="error", error=logs.error_fields(error))
                await asyncio.sleep(backoff.next_pause_s())
                continue
            logs.emit("zygote.restarted", pid=self.pid)
            self._flush()
            return


class _ZygoteConnection:
    """One zygote and the socket to it."""

    def __init__(
        self,
        settings: ZygoteSettings,
        *,
        on_exit: Callable[[ChildExit], None],
        on_writable: Callable[[], None],
    ) -> None:
        self.on_lost: Callable[[], None] = lambda: None
        self.level: str | None = None
        self._on_exit = on_exit
        self._on_writable = on_writable
        self._loop = asyncio.get_running_loop()
        self._frames = FrameDecoder()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._is_waiting = False
        self._was_heard = False
        self._missed_checks = 0
        self._socket, zygote_end = socket.socketpair()
        with zygote_end:
            self.program = _spawn_zygote(settings, zygote_end.fileno())
        self._folder = tempfile.mkdtemp(prefix="jobforge-")
        # The zygote reads this frame first, so a blocking send is fine.
        self._socket.sendall(encode_frame(FrameKind.SETUP, _encode_setup(settings, self._folder)))
        self._socket.setblocking(False)  # noqa: FBT003 - its only argument
        self._loop.add_reader(self._socket, self._read)

    async def wait_until_ready(self) -> None:
        await self._ready

    def send(self, data: bytes, fds: Sequence[int]) -> bool:
        """Send the data; return False if the socket is full. `on_writable` is called later."""
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())
        try:
            self._socket.sendmsg([data], [rights] if fds else [])
        except BlockingIOError:
            self._wait_for_room()
            return False
        except OSError:
            # The zygote has died, which the next read reports.
            return False
        return True

    def check_alive(self) -> bool:
        """Return whether the zygote has sent anything since the last check.

        If not, wake it by SIGCONT, and kill it after `_MAX_MISSED_CHECKS`.
        """
        was_heard, self._was_heard = self._was_heard, False
        self._missed_checks = 0 if was_heard else self._missed_checks + 1
        if self._missed_checks >= _MAX_MISSED_CHECKS:
            self.program.kill()
        elif self._missed_checks:
            logs.emit("zygote.silent", level="warning", pid=self.program.pid)
            self.program.send_signal(signal.SIGCONT)
        return was_heard

    async def close(self) -> None:
        """Close the socket, upon which the zygote kills its children and exits; wait for it."""
        self._forget()
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.program.wait, _CLOSING_S)
        self.discard()

    def discard(self) -> None:
        self._forget()
        self.program.kill()
        self.program.wait()
        remove_tree(self._folder)

    def _forget(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()

    def _wait_for_room(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._loop.add_writer(self._socket, self._handle_writable)

    def _handle_writable(self) -> None:
        self._is_waiting = False
        self._loop.remove_writer(self._socket)
        self._on_writable()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for kind, body in self._frames.feed(data):
            self._handle_frame(kind, body)
        if not data:
            self._loop.remove_reader(self._socket)
            if not self._ready.done():
                self._ready.set_exception(ConfigError(_DIED))
            else:
                self.on_lost()

    def _handle_frame(self, kind: FrameKind, body: bytes) -> None:
        self._was_heard = True
        if kind is FrameKind.ENDED:
            self._on_exit(ChildExit.unpack(body))
        elif kind is FrameKind.READY:
            fields = orjson.loads(body)
            if fields["threads"]:
                logs.emit("zygote.has_threads", level="warning", threads=fields["threads"])
            self.level = fields["level"]
            logs.emit("isolation.chosen", isolation_level=fields["level"], reason=fields["lack"])
            self._ready.set_result(None)
        elif kind is FrameKind.FAILED:
            fields = orjson.loads(body)
            self._ready.set_exception(ConfigError(fields["message"], hint=fields["hint"]))


_DIED = "The process that forks jobs exited while it imported the app"


def _spawn_zygote(settings: ZygoteSettings, fd: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-X", "utf8", "-m", "jobforge.worker.isolation.zygote", str(fd)],
        stdin=subprocess.DEVNULL,
        stdout=2,  # output of the app's import must not mix with the worker's stdout
        env=environment.build_zygote_environment(settings.environment),
        pass_fds=[fd],
        start_new_session=True,
    )


def _encode_setup(settings: ZygoteSettings, folder: str) -> bytes:
    return orjson.dumps(
        {
            "target": settings.target,
            "commands": dict(settings.commands),
            "job_environment": list(settings.job_environment),
            "secret_files": [str(path.absolute()) for path in settings.secret_files],
            "is_traced": settings.is_traced,
            "folder": folder,
            "isolation_level": settings.isolation_level,
            "job_user_range": settings.job_user_range,
            "job_processes": settings.job_processes,
        },
        default=dict,
    )


def _close_fds(fds: Sequence[int]) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)
