"""An app's own connections: one pool for threads and one per event loop, opened on first use.

The database or server is looked up at the same time. A forked process gets its own pools.
"""

import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeAlias, TypeVar
from uuid import UUID

from jobforge.calls import Call
from jobforge.client.address import ServerAddress
from jobforge.errors import Conflict
from jobforge.sdk.engine_location import DatabaseAddress

if TYPE_CHECKING:  # imported on first use: a job's process needs none of them
    import asyncio

    from jobforge.client.transport import AsyncTransport, Transport
    from jobforge.db import Database, Pool

P = ParamSpec("P")
T = TypeVar("T")

_NO_CONNECTION = "The app uses a server, so it has no database connections or transactions"


class EnginePool(NamedTuple):
    """A pool, and whether its login may name a tenant by argument alone."""

    pool: "Pool | Transport"
    is_service: bool


class AsyncEnginePool(NamedTuple):
    """Like EnginePool, for one event loop."""

    pool: "Database | AsyncTransport"
    is_service: bool


def find_no_server() -> ServerAddress | None:
    return None


class Pools:
    """Pools for any thread and any event loop. With a server, no database is looked up."""

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

    @cached_property
    def is_remote(self) -> bool:
        """Whether requests go to a server instead of a database."""
        return self._find_server() is not None

    def database(self) -> "Pool":
        """Return the sync database pool; raise Conflict when the app uses a server."""
        from jobforge.db import Pool  # noqa: PLC0415 - a job's process needs no driver

        pool = self.get_sync_pool().pool
        if not isinstance(pool, Pool):
            raise Conflict(_NO_CONNECTION)
        return pool

    async def database_of_this_loop(self) -> "Database":
        """Like `database`, for async code."""
        from jobforge.db import Database  # noqa: PLC0415 - a job's process needs no driver

        pool = (await self.get_loop_pool()).pool
        if not isinstance(pool, Database):
            raise Conflict(_NO_CONNECTION)
        return pool

    def get_sync_pool(self) -> EnginePool:
        self._reset_after_fork()
        engine_pool = self._source
        if engine_pool is None:
            with self._lock:
                engine_pool = self._source = self._source or self._open()
        return engine_pool

    async def get_loop_pool(self) -> AsyncEnginePool:
        self._reset_after_fork()
        import asyncio  # noqa: PLC0415 - keeps asyncio out of zygotes, see worker/isolation/async_handler.py

        loop = asyncio.get_running_loop()
        opening = self._by_loop.get(loop)
        if opening is None:
            self._drop_closed_loops()
            opening = self._by_loop[loop] = loop.create_task(self._aopen())
        try:
            # Other tasks wait for the same opening, so canceling one caller must not cancel it.
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._by_loop.get(loop) is opening:
                del self._by_loop[loop]
            raise

    def close(self) -> None:
        """Close the pool of threads. `aclose` in each event loop closes that loop's pool."""
        self._reset_after_fork()
        with self._lock:
            engine_pool, self._source = self._source, None
        if engine_pool is not None:
            engine_pool.pool.close()

    async def aclose(self) -> None:
        """Close the pool of this event loop and the pool of threads."""
        self._reset_after_fork()
        import asyncio  # noqa: PLC0415 - keeps asyncio out of zygotes, see worker/isolation/async_handler.py

        opening = self._by_loop.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            await (await opening).pool.close()
        self.close()

    def close_all(self) -> None:
        """Close all pools, including those of event loops, from outside the loops; for tests."""
        self._reset_after_fork()
        for loop, opening in list(self._by_loop.items()):
            if not loop.is_closed():
                _run_on_loop(loop, _close(opening))
        self._by_loop.clear()
        self.close()

    def _drop_closed_loops(self) -> None:
        """Abort the pools of loops that closed without `aclose`, as at the end of `asyncio.run`.

        The task in the map refers to its loop, so the weak key never expires, and the connections
        would stay open forever.
        """
        # Other threads change the map at the same time; keyrefs() copies its keys atomically.
        for reference in self._by_loop.keyrefs():
            loop = reference()
            opening = self._by_loop.pop(loop, None) if loop and loop.is_closed() else None
            if opening is None or opening.cancelled() or not opening.done():
                continue
            if opening.exception() is None:
                opening.result().pool.abort()

    def _reset_after_fork(self) -> None:
        """Drop the parent's pools in a process that was forked since the last use."""
        if self._pid == os.getpid():
            return
        # Keep them referenced: closing or collecting them would end the parent's sessions.
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
        from jobforge.db import Pool  # noqa: PLC0415 - a job's process needs no driver

        address = self._find_address()
        pool = Pool(address.url, size=self._size, behind_pooler=address.behind_pooler)
        pool.open()
        # Runs at interpreter exit at the latest.
        weakref.finalize(self, _close_unless_forked, pool, os.getpid())
        return EnginePool(pool, pool.inspect().is_service)

    async def _aopen(self) -> AsyncEnginePool:
        server = self._find_server()
        if server is not None:
            from jobforge.client.transport import AsyncTransport  # noqa: PLC0415 - httpx2 is an extra

            return AsyncEnginePool(AsyncTransport(server), is_service=True)
        from jobforge.db import Database  # noqa: PLC0415 - a job's process needs no driver

        address = self._find_address()
        pool = Database(address.url, size=self._size, behind_pooler=address.behind_pooler)
        await pool.open()
        return AsyncEnginePool(pool, (await pool.inspect()).is_service)


class BlockingSender:
    """Sends calls in the calling thread; its methods never suspend."""

    is_async = False

    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    async def send(self, call: Call[T], tenant_id: UUID | None = None) -> T:
        """Run a call. A login that may not name a tenant gets it in the transaction as well."""
        pool, is_service = self._pools.get_sync_pool()
        return pool.run(call if is_service or tenant_id is None else call.for_tenant(tenant_id))

    async def send_all(self, tenant_id: UUID, calls: Iterable[Call[T]]) -> list[T]:
        """Run many calls for a tenant in one transaction."""
        return self._pools.database().run_all(tenant_id, calls)

    async def call_blocking(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)


class AsyncSender:
    """Sends calls in the running event loop."""

    is_async = True

    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    async def send(self, call: Call[T], tenant_id: UUID | None = None) -> T:
        pool, is_service = await self._pools.get_loop_pool()
        named = call if is_service or tenant_id is None else call.for_tenant(tenant_id)
        return await pool.run(named)

    async def send_all(self, tenant_id: UUID, calls: Iterable[Call[T]]) -> list[T]:
        return await (await self._pools.database_of_this_loop()).run_all(tenant_id, calls)

    async def call_blocking(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio  # noqa: PLC0415 - keeps asyncio out of zygotes, see worker/isolation/async_handler.py

        return await asyncio.to_thread(function, *args, **kwargs)


Sender: TypeAlias = BlockingSender | AsyncSender


def _close_unless_forked(pool: "Pool | Transport", opened_by: int) -> None:
    # A forked process runs the finalizers of its parent, too.
    if opened_by == os.getpid():
        pool.close()


async def _close(opening: "asyncio.Task[AsyncEnginePool]") -> None:
    await (await opening).pool.close()


def _run_on_loop(loop: "asyncio.AbstractEventLoop", closing: Coroutine[Any, Any, None]) -> None:
    import asyncio  # noqa: PLC0415 - keeps asyncio out of zygotes, see worker/isolation/async_handler.py

    if not loop.is_running():
        loop.run_until_complete(closing)
    elif asyncio._get_running_loop() is loop:  # noqa: SLF001 - get_running_loop raises without a loop
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
