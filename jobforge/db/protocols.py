"""What a worker needs of the engine: a database, or a server that stands before one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from jobforge.calls import Call, PendingResult

T = TypeVar("T")


class Link(Protocol):
    """A connection for one loop. What it asks may be read after it has asked again."""

    async def run(self, call: Call[T]) -> T: ...

    async def send(self, call: Call[T]) -> PendingResult[T]: ...

    async def close(self) -> None: ...


class Engine(Protocol):
    """`listen` tells the names of channels, where it can.

    A server keeps bulk operations going itself; before a bare database the workers do.
    """

    can_listen: bool
    runs_bulk_operations: bool

    async def run(self, call: Call[T]) -> T: ...

    def create_link(self, *, durable: bool = True) -> Link: ...

    def listen(self, *channels: str) -> AbstractAsyncContextManager[AsyncIterator[str]]: ...


RunCall = Callable[[Call[Any]], Awaitable[Any]]
"""Sends one call and returns its result, as `Database.run` does."""
