"""An app's own connections: one pool for threads, one for each event loop, opened when first used.

Which database or server that is, is found out no sooner. A process that was forked gets its own.
"""

import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from jobforge.client.address import ServerAddress
from jobforge.errors import Conflict

if TYPE_CHECKING:  # each of them is loaded when it is needed: a job's process needs none
    import asyncio

    from jobforge.client.transport import AsyncTransport, Transport
    from jobforge.db import Database, Pool
from jobforge.sdk.location import Address

_NO_SERVER = "this app has a database, and asks no server"
_NO_CONNECTION = "over HTTP there is no database connection, and no transaction of the app's own"


@dataclass(frozen=True, slots=True)
class Source:
    """A pool, and whether its login may name a tenant by argument alone."""

    pool: "Pool | Transport"
    is_service: bool


@dataclass(frozen=True, slots=True)
class AsyncSource:
    """As Source, for one event loop."""

    pool: "Database | AsyncTransport"
    is_service: bool


def no_server() -> ServerAddress | None:
    return None


class Pools:
    """Safe to use from any thread and any loop. With a server, no database is looked for."""

    def __init__(
        self,
        find_address: Callable[[], Address],
        *,
        size: int,
        find_server: Callable[[], ServerAddress | None] = no_server,
    ) -> None:
        self._find_address = find_address
        self._find_server = find_server
        self._size = size
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._source: Source | None = None
        self._by_loop = _none_by_loop()

    @property
    def is_remote(self) -> bool:
        """Whether there is a server to ask instead of a database."""
        return self._find_server() is not None

    def database(self) -> "Pool":
        """Conflict over HTTP."""
        from jobforge.db import Pool  # noqa: PLC0415 - see above

        pool = self.sync().pool
        if not isinstance(pool, Pool):
            raise Conflict(_NO_CONNECTION)
        return pool

    async def database_of_this_loop(self) -> "Database":
        """As `database`, for async code."""
        from jobforge.db import Database  # noqa: PLC0415 - see above

        pool = (await self.of_this_loop()).pool
        if not isinstance(pool, Database):
            raise Conflict(_NO_CONNECTION)
        return pool

    def transport(self) -> "Transport":
        """Conflict without a server."""
        from jobforge.client.transport import Transport  # noqa: PLC0415 - httpx2 is an extra

        pool = self.sync().pool
        if not isinstance(pool, Transport):
            raise Conflict(_NO_SERVER)
        return pool

    async def transport_of_this_loop(self) -> "AsyncTransport":
        """As `transport`, for async code."""
        from jobforge.client.transport import AsyncTransport  # noqa: PLC0415 - as above

        pool = (await self.of_this_loop()).pool
        if not isinstance(pool, AsyncTransport):
            raise Conflict(_NO_SERVER)
        return pool

    def sync(self) -> Source:
        self._leave_to_parent()
        source = self._source
        if source is None:
            with self._lock:
                source = self._source = self._source or self._open()
        return source

    async def of_this_loop(self) -> AsyncSource:
        self._leave_to_parent()
        import asyncio  # noqa: PLC0415 - not in a zygote: worker/isolation/async_handler.py says why

        loop = asyncio.get_running_loop()
        opening = self._by_loop.get(loop)
        if opening is None:
            self._drop_closed_loops()
            opening = self._by_loop[loop] = loop.create_task(self._aopen())
        try:
            # Whoever comes first may be canceled; the others wait for the same opening.
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._by_loop.get(loop) is opening:
                del self._by_loop[loop]
            raise

    def close(self) -> None:
        """Closes the pool of threads; those of loops are closed by their own loop's `aclose`."""
        self._leave_to_parent()
        with self._lock:
            source, self._source = self._source, None
        if source is not None:
            source.pool.close()

    async def aclose(self) -> None:
        """Closes the pool of this loop, and that of threads."""
        self._leave_to_parent()
        import asyncio  # noqa: PLC0415 - not in a zygote: worker/isolation/async_handler.py says why

        opening = self._by_loop.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            await (await opening).pool.close()
        self.close()

    def close_all(self) -> None:
        """Closes also the pools of loops, from outside: for tests, between two of them."""
        self._leave_to_parent()
        for loop, opening in list(self._by_loop.items()):
            if not loop.is_closed():
                _finish(loop, _close(opening))
        self._by_loop.clear()
        self.close()

    def _drop_closed_loops(self) -> None:
        """Those that ended without `aclose`, as at the end of `asyncio.run`.

        Their Tasks hold them, so they would stay for ever, and their connections with them.
        """
        # Other threads may do so with theirs: a list of references is made in one go.
        for reference in self._by_loop.keyrefs():
            loop = reference()
            opening = self._by_loop.pop(loop, None) if loop and loop.is_closed() else None
            if opening is None or opening.cancelled() or not opening.done():
                continue
            if opening.exception() is None:
                opening.result().pool.drop()

    def _leave_to_parent(self) -> None:
        """In a process that was forked since the last use."""
        if self._pid == os.getpid():
            return
        # To close or collect them here would end the parent's sessions.
        _LEFT_TO_PARENT.append((self._source, self._by_loop))
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._source, self._by_loop = None, _none_by_loop()

    def _open(self) -> Source:
        server = self._find_server()
        if server is not None:
            from jobforge.client.transport import Transport  # noqa: PLC0415 - httpx2 is an extra

            transport = Transport(server)
            weakref.finalize(self, _close_own, transport, os.getpid())
            return Source(transport, is_service=True)
        from jobforge.db import Pool  # noqa: PLC0415 - see above

        address = self._find_address()
        pool = Pool(address.url, size=self._size, behind_pooler=address.behind_pooler)
        pool.open()
        # At the latest when the interpreter ends.
        weakref.finalize(self, _close_own, pool, os.getpid())
        return Source(pool, pool.inspect().is_service)

    async def _aopen(self) -> AsyncSource:
        server = self._find_server()
        if server is not None:
            from jobforge.client.transport import AsyncTransport  # noqa: PLC0415 - as above

            return AsyncSource(AsyncTransport(server), is_service=True)
        from jobforge.db import Database  # noqa: PLC0415 - see above

        address = self._find_address()
        pool = Database(address.url, size=self._size, behind_pooler=address.behind_pooler)
        await pool.open()
        return AsyncSource(pool, (await pool.inspect()).is_service)


def _close_own(pool: "Pool | Transport", opened_by: int) -> None:
    # A forked process ends with the same finalizers.
    if opened_by == os.getpid():
        pool.close()


async def _close(opening: "asyncio.Task[AsyncSource]") -> None:
    await (await opening).pool.close()


def _finish(loop: "asyncio.AbstractEventLoop", closing: Coroutine[Any, Any, None]) -> None:
    import asyncio  # noqa: PLC0415 - not in a zygote: worker/isolation/async_handler.py says why

    if not loop.is_running():
        loop.run_until_complete(closing)
    elif asyncio._get_running_loop() is loop:  # noqa: SLF001 - the public one raises without
        _CLOSING.add(task := loop.create_task(closing))
        task.add_done_callback(_CLOSING.discard)
    else:
        asyncio.run_coroutine_threadsafe(closing, loop).result()


def _none_by_loop() -> "ByLoop":
    return weakref.WeakKeyDictionary()


ByLoop: TypeAlias = (
    "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[AsyncSource]]"
)
_LEFT_TO_PARENT: list[object] = []
_CLOSING: "set[asyncio.Task[None]]" = set()
