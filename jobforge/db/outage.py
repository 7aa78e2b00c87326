"""Tracks whether the database is reachable, across all loops of a worker; logs each change once."""

import time
from typing import TypeVar

from jobforge.calls import Call, PendingResult
from jobforge.db.protocols import Link
from jobforge.errors import Unavailable
from jobforge.observability import logs

T = TypeVar("T")


class Outage:
    """State from the first call that fails with Unavailable to the next that succeeds."""

    def __init__(self) -> None:
        self._since: float | None = None
        self.ended_count = 0  # number of outages that have ended

    @property
    def is_active(self) -> bool:
        return self._since is not None

    def begin(self, error: Unavailable) -> None:
        if self._since is None:
            self._since = time.monotonic()
            logs.emit("database.lost", level="warning", error=error.message)

    def end(self) -> None:
        if self._since is not None:
            duration_ms = round((time.monotonic() - self._since) * 1000)
            self._since = None
            self.ended_count += 1
            logs.emit("database.back", duration_ms=duration_ms)


class MonitoredLink:
    """A link that reports the outcome of each call to an Outage."""

    def __init__(self, link: Link, outage: Outage) -> None:
        self._link = link
        self._outage = outage

    async def run(self, call: Call[T]) -> T:
        return await (await self.send(call)).read()

    async def send(self, call: Call[T]) -> PendingResult[T]:
        try:
            result = await self._link.send(call)
        except Unavailable as error:
            self._outage.begin(error)
            raise
        self._outage.end()
        return result

    async def close(self) -> None:
        await self._link.close()
