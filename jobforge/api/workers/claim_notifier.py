"""Wakes long-polling claims: one listener per server for all of them.

It listens to the queues that claims have waited for. Notifications only reduce latency: waiting
claims also poll, so a lost notification delays them but loses nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable

from jobforge.db import Database
from jobforge.errors import JobForgeError
from jobforge.observability import logs

_PREFIX = "jobforge:"
_PAUSE_AFTER_ERROR_S = 1.0
_MOST_QUEUES = 1000  # callers choose the names; queues beyond the limit are polled only


class ClaimNotifier:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._queues: set[str] = set()
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        while self._database.can_listen and not self._stopping.is_set():
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._listen()
            except JobForgeError as error:
                await self._recover(error)

    def stop(self) -> None:
        self._stopping.set()
        self._changed.set()
        self._notify(self._waiting)

    @property
    def is_stopped(self) -> bool:
        return self._stopping.is_set()

    async def wait(self, queues: Iterable[str], within_s: float) -> bool:
        """Wait until one of the queues may have a job; return False after the timeout."""
        names = set(queues)
        notified = asyncio.Event()
        for name in names:
            self._waiting.setdefault(name, set()).add(notified)
        self._add_queues(names)
        try:
            if not self.is_stopped:
                await _wait_for_event(notified, within_s)
            return notified.is_set()
        finally:
            for name in names:
                self._waiting[name].discard(notified)
                if not self._waiting[name]:
                    del self._waiting[name]

    def _add_queues(self, names: set[str]) -> None:
        new = names - self._queues
        if new and len(self._queues) + len(new) <= _MOST_QUEUES:
            self._queues |= new
            self._changed.set()

    async def _listen(self) -> None:
        """Listen to all queues known now, until that set changes."""
        channels = [_PREFIX + queue for queue in self._queues]
        if not channels:
            return
        async with self._database.listen(*channels) as names, asyncio.TaskGroup() as group:
            self._notify(self._queues)  # earlier notifications were not received
            receiving = group.create_task(self._receive(names))
            await self._changed.wait()
            receiving.cancel()

    async def _receive(self, names: AsyncIterator[str]) -> None:
        try:
            async for name in names:
                self._notify([name.removeprefix(_PREFIX)])
        except JobForgeError as error:
            await self._recover(error)

    async def _recover(self, error: JobForgeError) -> None:
        logs.emit("claims.deaf", "warning", error=logs.error_fields(error))
        await _wait_for_event(self._stopping, _PAUSE_AFTER_ERROR_S)
        self._changed.set()

    def _notify(self, queues: Iterable[str]) -> None:
        for queue in queues:
            for notified in self._waiting.get(queue, ()):
                notified.set()


async def _wait_for_event(event: asyncio.Event, within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return
