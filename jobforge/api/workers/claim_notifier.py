"""Wakes long-polling claims: one listener per server for all of them.

It listens to the queues that claims have waited for. Notifications only reduce latency: waiting
claims also poll, so a lost notification delays them but loses nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable

from jobforge.db import Database
from jobforge.db.background_loop import BackgroundLoop, wait_until_set

_PREFIX = "jobforge:"
_MOST_QUEUES = 1000  # callers choose the names; queues beyond the limit are polled only


class ClaimNotifier:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._queues: set[str] = set()
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._loop = BackgroundLoop("claim notifications", self._step, failure_event="claims.deaf")

    async def run(self) -> None:
        if self._database.can_listen:
            await self._loop.run()

    def stop(self) -> None:
        self._loop.stop()
        self._notify(self._waiting)

    @property
    def is_stopped(self) -> bool:
        return self._loop.is_stopped

    async def wait(self, queues: Iterable[str], within_s: float) -> bool:
        """Wait until one of the queues may have a job; return False after the timeout."""
        names = set(queues)
        notified = asyncio.Event()
        for name in names:
            self._waiting.setdefault(name, set()).add(notified)
        self._add_queues(names)
        try:
            return not self.is_stopped and await wait_until_set(notified, within_s)
        finally:
            for name in names:
                self._waiting[name].discard(notified)
                if not self._waiting[name]:
                    del self._waiting[name]

    def _add_queues(self, names: set[str]) -> None:
        new = names - self._queues
        if new and len(self._queues) + len(new) <= _MOST_QUEUES:
            self._queues |= new
            self._loop.wake()

    async def _step(self, loop: BackgroundLoop) -> None:
        """Listen to all queues known now, until that set changes."""
        if not self._queues:
            await loop.wait_for_wake()
            return
        channels = [_PREFIX + queue for queue in self._queues]
        try:
            async with self._database.listen(*channels) as names, asyncio.TaskGroup() as group:
                loop.reset_failures()
                self._notify(self._queues)  # earlier notifications were not received
                receiving = group.create_task(self._receive(names))
                await loop.wait_for_wake()
                receiving.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _receive(self, names: AsyncIterator[str]) -> None:
        async for name in names:
            self._notify([name.removeprefix(_PREFIX)])

    def _notify(self, queues: Iterable[str]) -> None:
        for queue in queues:
            for notified in self._waiting.get(queue, ()):
                notified.set()
