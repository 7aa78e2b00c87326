"""What a worker requires of its engine: a database, or an HTTP server in front of one."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from jobforge.calls import Call, PendingResult

T = TypeVar("T")


class Link(Protocol):
    """A connection for one loop. A result of `send` may be read after the next call."""

    async def run(self, call: Call[T]) -> T: ...

    async def send(self, call: Call[T]) -> PendingResult[T]: ...

    async def close(self) -> None: ...


class Engine(Protocol):
    """Runs calls and, if `can_listen`, yields the channel names of notifications.

    `runs_bulk_operations`: an HTTP server advances bulk operations itself; with a direct database
    connection the workers do.
    """

    can_listen: bool
    runs_bulk_operations: bool

    async def run(self, call: Call[T]) -> T: ...

    def create_link(self, *, durable: bool = True) -> Link: ...

    def listen(self, *channels: str) -> AbstractAsyncContextManager[AsyncIterator[str]]: ...


class RunCall(Protocol):
    """Sends one call and returns its result, as `Database.run` does."""

    def __call__(self, call: Call[T], /) -> Awaitable[T]: ...
