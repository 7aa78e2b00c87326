"""The worker's end of its zygote: starts it, sends it requests, starts it anew when it dies.

Jobs run as the same user and may stop it. So it is asked now and then whether it is there: one that
does not answer is woken, and ended when that does not help.
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

from jobforge.config import JOB_PROCESSES, JOB_USER_RANGE
from jobforge.errors import ConfigError, Json
from jobforge.observability import logs
from jobforge.worker.isolation import environment
from jobforge.worker.isolation.cleanup import remove
from jobforge.worker.isolation.frames import Ended, Frames, Kind, Op, Request, frame

_READ = 65_536
_CLOSING_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0
_LOOK_S = 5.0
# So many looks in a row without an answer, and it is ended.
_MOST_SILENCES = 4


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a zygote is made of."""

    target: str
    environment: Mapping[str, str]
    job_environment: Sequence[str]
    secret_files: Sequence[Path]
    commands: Mapping[str, Mapping[str, Json]]
    is_traced: bool
    isolation_level: str = "auto"
    job_user_range: tuple[int, int] = JOB_USER_RANGE
    job_processes: int = JOB_PROCESSES


class ForkServer:
    """`on_lost`: the zygote has died, with all runs that it was sent; `holds` tells the others."""

    def __init__(
        self,
        recipe: Recipe,
        *,
        on_ended: Callable[[Ended], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._recipe = recipe
        self._on_ended = on_ended
        self._on_lost = on_lost
        self._link: _Link | None = None
        self._restart: asyncio.Task[None] | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._unsent: deque[tuple[Request, Sequence[int]]] = deque()
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        return self._link.program.pid if self._link else None

    @property
    def level(self) -> str | None:
        """The level of isolation that the zygote has chosen."""
        return self._link.level if self._link else None

    async def open(self) -> None:
        """ConfigError when the app cannot be imported there."""
        self._link = await self._started()
        self._flush()
        self._look_later()

    async def close(self) -> None:
        self._is_closed = True
        if self._next_look is not None:
            self._next_look.cancel()
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.wait([self._restart])
        if self._link is not None:
            await self._link.close()
            self._link = None
        while self._unsent:
            _close(self._unsent.popleft()[1])

    def send(self, request: Request, fds: Sequence[int] = ()) -> None:
        """In this order, now or when there is a zygote again. The descriptors are closed then."""
        self._unsent.append((request, fds))
        if len(self._unsent) == 1:
            self._flush()

    def holds(self, run: int) -> bool:
        """Whether the run has not been sent yet."""
        return any(request.op == Op.FORK and request.run == run for request, _ in self._unsent)

    def withdraw(self, run: int) -> bool:
        """Takes back a run that has not been sent yet; False when it has."""
        for entry in self._unsent:
            request, fds = entry
            if request.op == Op.FORK and request.run == run:
                self._unsent.remove(entry)
                _close(fds)
                return True
        return False

    def _flush(self) -> None:
        while self._unsent and self._link is not None:
            request, fds = self._unsent[0]
            if not self._link.send(request.pack(), fds):
                return
            self._unsent.popleft()
            _close(fds)

    def _look_later(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        if self._link is not None and self._link.look():
            self.send(Request(Op.ECHO, 0))
        self._look_later()

    async def _started(self) -> "_Link":
        link = _Link(self._recipe, on_ended=self._on_ended, on_ready_to_send=self._flush)
        try:
            await link.ready()
        except BaseException:
            await link.close()
            raise
        link.on_lost = self._lost
        return link

    def _lost(self) -> None:
        if self._is_closed or self._link is None:
            return
        self._link.discard()
        self._link = None
        logs.emit("zygote.lost", level="error")
        # What was meant for runs of the old one means nothing to the next.
        self._unsent = deque(entry for entry in self._unsent if entry[0].op == Op.FORK)
        self._on_lost()
        self._restart = asyncio.get_running_loop().create_task(self._start_again())

    async def _start_again(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                self._link = await self._started()
            except Exception as error:  # noqa: BLE001 - whatever it is, jobs wait for the next try
                logs.emit("zygote.failed", level="error", error=logs.error_of(error))
                await asyncio.sleep(pause_s)
                pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
                continue
            logs.emit("zygote.restarted", pid=self.pid)
            self._flush()
            return


class _Link:
    """One zygote and the socket to it."""

    def __init__(
        self,
        recipe: Recipe,
        *,
        on_ended: Callable[[Ended], None],
        on_ready_to_send: Callable[[], None],
    ) -> None:
        self.on_lost: Callable[[], None] = lambda: None
        self.level: str | None = None
        self._on_ended = on_ended
        self._on_ready_to_send = on_ready_to_send
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._is_waiting = False
        self._was_heard = False
        self._silences = 0
        self._socket, theirs = socket.socketpair()
        with theirs:
            self.program = _start(recipe, theirs.fileno())
        self._folder = tempfile.mkdtemp(prefix="jobforge-")
        # It reads this before anything else, so the socket takes it at once.
        self._socket.sendall(frame(Kind.SETUP, _setup(recipe, self._folder)))
        self._socket.setblocking(False)  # noqa: FBT003 - its only argument
        self._loop.add_reader(self._socket, self._read)

    async def ready(self) -> None:
        await self._ready

    def send(self, data: bytes, fds: Sequence[int]) -> bool:
        """False when there is no room; `on_ready_to_send` is called when there is."""
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())
        try:
            self._socket.sendmsg([data], [rights] if fds else [])
        except BlockingIOError:
            self._wait_for_room()
            return False
        except OSError:
            # It has died, which the reader is about to see.
            return False
        return True

    def look(self) -> bool:
        """Whether it has said anything since the last look. If not, it is woken, then ended."""
        was_heard, self._was_heard = self._was_heard, False
        self._silences = 0 if was_heard else self._silences + 1
        if self._silences >= _MOST_SILENCES:
            self.program.kill()
        elif self._silences:
            logs.emit("zygote.silent", level="warning", pid=self.program.pid)
            self.program.send_signal(signal.SIGCONT)
        return was_heard

    async def close(self) -> None:
        """Without its worker a zygote ends all its children, and then itself."""
        self._forget()
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.program.wait, _CLOSING_S)
        self.discard()

    def discard(self) -> None:
        self._forget()
        self.program.kill()
        self.program.wait()
        remove(self._folder)

    def _forget(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()

    def _wait_for_room(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._loop.add_writer(self._socket, self._has_room)

    def _has_room(self) -> None:
        self._is_waiting = False
        self._loop.remove_writer(self._socket)
        self._on_ready_to_send()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for kind, body in self._frames.feed(data):
            self._take(kind, body)
        if not data:
            self._loop.remove_reader(self._socket)
            if not self._ready.done():
                self._ready.set_exception(ConfigError(_DIED))
            else:
                self.on_lost()

    def _take(self, kind: Kind, body: bytes) -> None:
        self._was_heard = True
        if kind is Kind.ENDED:
            self._on_ended(Ended.unpack(body))
        elif kind is Kind.READY:
            told = orjson.loads(body)
            if told["threads"]:
                logs.emit("zygote.has_threads", level="warning", threads=told["threads"])
            self.level = told["level"]
            logs.emit("isolation.chosen", isolation_level=told["level"], reason=told["lack"])
            self._ready.set_result(None)
        elif kind is Kind.FAILED:
            told = orjson.loads(body)
            self._ready.set_exception(ConfigError(told["message"], hint=told["hint"]))


_DIED = "the process that jobs are forked from died while it imported the app"


def _start(recipe: Recipe, fd: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-X", "utf8", "-m", "jobforge.worker.isolation.zygote", str(fd)],
        stdin=subprocess.DEVNULL,
        stdout=2,  # what an app prints while it is imported is no output of the worker
        env=environment.for_zygote(recipe.environment),
        pass_fds=[fd],
        start_new_session=True,
    )


def _setup(recipe: Recipe, folder: str) -> bytes:
    return orjson.dumps(
        {
            "target": recipe.target,
            "commands": dict(recipe.commands),
            "job_environment": list(recipe.job_environment),
            "secret_files": [str(path.absolute()) for path in recipe.secret_files],
            "is_traced": recipe.is_traced,
            "folder": folder,
            "isolation_level": recipe.isolation_level,
            "job_user_range": recipe.job_user_range,
            "job_processes": recipe.job_processes,
        },
        default=dict,
    )


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)
