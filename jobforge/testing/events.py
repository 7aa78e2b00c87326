"""Dispatch a test's events as a scheduler does: enqueue the triggered jobs, wake waiting jobs."""

from typing import TypeVar

from jobforge import db
from jobforge.calls import Call, PendingResult
from jobforge.scheduler.dispatch import Dispatcher
from jobforge.testing.event_loop import HandlerLoop

T = TypeVar("T")

_MAX_BATCHES = 100  # of up to 500 events each; more indicate an event that cannot be dispatched


class EventDispatcher:
    """Dispatches events on the kit's connection."""

    def __init__(self, conn: db.Connection, loop: HandlerLoop) -> None:
        self._link = _BlockingLink(conn)
        self._loop = loop
        self._dispatcher = Dispatcher()

    def dispatch(self) -> bool:
        """Dispatch all pending events; return whether there were any."""
        return self._loop.run(self._dispatch())

    async def _dispatch(self) -> bool:
        for batch in range(_MAX_BATCHES):
            if not await self._dispatcher.dispatch(self._link):
                return batch > 0
        return True


class _BlockingLink:
    """A link whose calls block the event loop, as the test waits for them anyway."""

    def __init__(self, conn: db.Connection) -> None:
        self._conn = conn

    async def run(self, call: Call[T]) -> T:
        return db.run(self._conn, call)

    async def send(self, call: Call[T]) -> PendingResult[T]:
        return PendingResult.from_value(1, await self.run(call))

    async def close(self) -> None:
        """Leave the connection open: the kit owns it."""
