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
from jobforge.sdk.location import DatabaseAddress

_NO_SERVER = "this app has a database, and asks no server"
_NO_CONNECTION = "over HTTP there is no database connection, and no transaction of the app's own"


@dataclass(frozen=True, slots=True)
class EnginePool:
    """A pool, and whether its login may name a tenant by argument alone."""

    pool: "Pool | Transport"
    is_service: bool


@dataclass(frozen=True, slots=True)
class AsyncEnginePool:
    """As Source, for one event loop."""

    pool: "Database | AsyncTransport"
    is_service: bool


def find_no_server() -> ServerAddress | None:
    return None


class Pools:
    """Safe to use from any thread and any loop. With a server, no database is looked for."""

    def __init__(
        self,
        find_address: Callable[[], DatabaseAddress],
        *,
        size: int,
        find_server: Callable[[], ServerAddress | None] = find_no_server,
    ) -> None:
        self._find_address = find_address
        self._find_server = find_server
        self._size = size
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._source: EnginePool | None = None
        self._by_loop = _new_loop_map()

    @property
    def is_remote(self) -> bool:
        """Whether there is a server to ask instead of a database."""
        return self._find_server() is not None

    def database(self) -> "Pool":
        """Conflict over HTTP."""
        from jobforge.db import Pool  # noqa: PLC0415 - see above

        pool = self.get_sync_pool().pool
        if not isinstance(pool, Pool):
            raise Conflict(_NO_CONNECTION)
        return pool

    async def database_of_this_loop(self) -> "Database":
        """As `database`, for async code."""
        from jobforge.db import Database  # noqa: PLC0415 - see above

        pool = (await self.get_loop_pool()).pool
        if not isinstance(pool, Database):
            raise Conflict(_NO_CONNECTION)
        return pool

    def transport(self) -> "Transport":
        """Conflict without a server."""
        from jobforge.client.transport import Transport  # noqa: PLC0415 - httpx2 is an extra

        pool = self.get_sync_pool().pool
        if not isinstance(pool, Transport):
            raise Conflict(_NO_SERVER)
        return pool

    async def transport_of_this_loop(self) -> "AsyncTransport":
        """As `transport`, for async code."""
        from jobforge.client.transport import AsyncTransport  # noqa: PLC0415 - as above

        pool = (await self.get_loop_pool()).pool
        if not isinstance(pool, AsyncTransport):
            raise Conflict(_NO_SERVER)
        return pool

    def get_sync_pool(self) -> EnginePool:
        self._reset_after_fork()
        source = self._source
        if source is None:
            with self._lock:
                source = self._source = self._source or self._open()
        return source

    async def get_loop_pool(self) -> AsyncEnginePool:
        self._reset_after_fork()
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
        self._reset_after_fork()
        with self._lock:
            source, self._source = self._source, None
        if source is not None:
            source.pool.close()

    async def aclose(self) -> None:
        """Closes the pool of this loop, and that of threads."""
        self._reset_after_fork()
        import asyncio  # noqa: PLC0415 - not in a zygote: worker/isolation/async_handler.py says why

        opening = self._by_loop.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            await (await opening).pool.close()
        self.close()

    def close_all(self) -> None:
        """Closes also the pools of loops, from outside: for tests, between two of them."""
        self._reset_after_fork()
        for loop, opening in list(self._by_loop.items()):
            if not loop.is_closed():
                _run_on_loop(loop, _close(opening))
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
                opening.result().pool.abort()

    def _reset_after_fork(self) -> None:
        """In a process that was forked since the last use."""
        if self._pid == os.getpid():
            return
        # To close or collect them here would end the parent's sessions.
        _INHERITED_POOLS.append((self._source, self._by_loop))
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._source, self._by_loop = None, _new_loop_map()

    def _open(self) -> EnginePool:
        server = self._find_server()
        if server is not None:
            from jobforge.client.transport import Transport  # noqa: PLC0415 - httpx2 is an extra

            transport = Transport(server)
            weakref.finalize(self, _close_unless_forked, transport, os.getpid())
            return EnginePool(transport, is_service=True)
        from jobforge.db import Pool  # noqa: PLC0415 - see above

        address = self._find_address()
        pool = Pool(address.url, size=self._size, behind_pooler=address.behind_pooler)
        pool.open()
        # At the latest when the interpreter ends.
        weakref.finalize(self, _close_unless_forked, pool, os.getpid())
        return EnginePool(pool, pool.inspect().is_service)

    async def _aopen(self) -> AsyncEnginePool:
        server = self._find_server()
        if server is not None:
            from jobforge.client.transport import AsyncTransport  # noqa: PLC0415 - as above

            return AsyncEnginePool(AsyncTransport(server), is_service=True)
        from jobforge.db import Database  # noqa: PLC0415 - see above

        address = self._find_address()
        pool = Database(address.url, size=self._size, behind_pooler=address.behind_pooler)
        await pool.open()
        return AsyncEnginePool(pool, (await pool.inspect()).is_service)


def _close_unless_forked(pool: "Pool | Transport", opened_by: int) -> None:
    # A forked process ends with the same finalizers.
    if opened_by == os.getpid():
        pool.close()


async def _close(opening: "asyncio.Task[AsyncEnginePool]") -> None:
    await (await opening).pool.close()


def _run_on_loop(loop: "asyncio.AbstractEventLoop", closing: Coroutine[Any, Any, None]) -> None:
    import asyncio  # noqa: PLC0415 - not in a zygote: worker/isolation/async_handler.py says why

    if not loop.is_running():
        loop.run_until_complete(closing)
    elif asyncio._get_running_loop() is loop:  # noqa: SLF001 - the public one raises without
        _CLOSING.add(task := loop.create_task(closing))
        task.add_done_callback(_CLOSING.discard)
    else:
        asyncio.run_coroutine_threadsafe(closing, loop).result()


def _new_loop_map() -> "PoolsByLoop":
    return weakref.WeakKeyDictionary()


PoolsByLoop: TypeAlias = (
    "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[AsyncEnginePool]]"
)
_INHERITED_POOLS: list[object] = []
_CLOSING: "set[asyncio.Task[None]]" = set()
