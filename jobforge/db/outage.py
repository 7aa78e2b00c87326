"""Whether the database answers, as all loops of a worker see it: told once when it changes."""

import time
from typing import TypeVar

from jobforge.calls import Answer, Call
from jobforge.db.protocols import Link
from jobforge.errors import Unavailable
from jobforge.observability import logs

T = TypeVar("T")


class Outage:
    """From the first call that did not reach the database to the first that did again."""

    def __init__(self) -> None:
        self._since: float | None = None
        self.ended = 0  # how many there were

    @property
    def is_on(self) -> bool:
        return self._since is not None

    def begin(self, error: Unavailable) -> None:
        if self._since is None:
            self._since = time.monotonic()
            logs.emit("database.lost", level="warning", error=error.message)

    def end(self) -> None:
        if self._since is not None:
            duration_ms = round((time.monotonic() - self._since) * 1000)
            self._since = None
            self.ended += 1
            logs.emit("database.back", duration_ms=duration_ms)


class Line:
    """A link whose calls show whether there is an outage."""

    def __init__(self, link: Link, outage: Outage) -> None:
        self._link = link
        self._outage = outage

    async def run(self, call: Call[T]) -> T:
        return await (await self.ask(call)).read()

    async def ask(self, call: Call[T]) -> Answer[T]:
        try:
            answer = await self._link.ask(call)
        except Unavailable as error:
            self._outage.begin(error)
            raise
        self._outage.end()
        return answer

    async def close(self) -> None:
        await self._link.close()
