"""Connection pool to one database for async code, and LISTEN."""

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Self, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool

from jobforge.calls import Call
from jobforge.db import prepared
from jobforge.db.connection import (
    SET_LOCAL,
    AsyncConnection,
    arun,
    check_committed,
)
from jobforge.db.doctor.server_facts import Inspection, inspect
from jobforge.db.driver import (
    DEFAULT_TIMEOUTS,
    TRANSLATED_ERRORS,
    DriverErrorTranslator,
    Timeouts,
    build_connect_kwargs,
    raise_translated,
)
from jobforge.db.fast_connection import FastConnection
from jobforge.db.link import DedicatedConnection
from jobforge.db.prepared import AsyncPreparedConnection
from jobforge.errors import ConfigError, Conflict

T = TypeVar("T")


class Database:
    """A pool of async connections to one database.

    `behind_pooler` is for PgBouncer in transaction mode: no startup options and no prepared
    statements. LISTEN does not work through such a pooler; `listen_url` must bypass it.
    """

    def __init__(
        self,
        url: str,
        *,
        size: int = 10,
        behind_pooler: bool = False,
        listen_url: str | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self._settings = build_connect_kwargs(url, behind_pooler=behind_pooler, timeouts=timeouts)
        self._behind_pooler = behind_pooler
        self._listen_settings = self._settings
        if listen_url:
            self._listen_settings = build_connect_kwargs(
                listen_url, behind_pooler=False, timeouts=timeouts
            )
        self.can_listen = bool(listen_url) or not behind_pooler
        self.runs_bulk_operations = False
        self._connections: weakref.WeakSet[AsyncPreparedConnection] = weakref.WeakSet()
        self._pool = AsyncConnectionPool(
            connection_class=AsyncPreparedConnection,
            kwargs=self._settings,
            configure=self._remember_connection,
            min_size=1,
            max_size=size,
            timeout=10,
            check=_acheck,
            open=False,
        )
        # A pooler does not support prepared statements. The fast connection stays checked out, so a
        # pool of one connection cannot spare it.
        self._fast_connection = None if behind_pooler or size < 2 else FastConnection(self._pool)

    async def open(self) -> None:
        """Open the pool. Raise Unavailable, with the cause, if the database is unreachable."""
        with DriverErrorTranslator():
            # The pool hides connection errors: it retries silently until its timeout.
            await (await psycopg.AsyncConnection.connect(**self._settings)).close()
            await self._pool.open(wait=True)

    async def close(self) -> None:
        if self._fast_connection is not None:
            await self._fast_connection.close()
        await self._pool.close()

    def abort(self) -> None:
        """Close the connections after their event loop was closed, when nothing can be awaited."""
        for conn in list(self._connections):
            conn.pgconn.finish()

    async def _remember_connection(self, conn: AsyncPreparedConnection) -> None:
        self._connections.add(conn)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, call: Call[T]) -> T:
        """Run a call in its own transaction: one round trip."""
        try:
            conn = await self._pool.getconn()
            try:
                if call.settings or not call.is_frequent or self._behind_pooler:
                    return await arun(conn, call)
                return await prepared.arun(conn, call)
            finally:
                await self._pool.putconn(conn)
        except TRANSLATED_ERRORS as error:
            raise_translated(error)

    async def run_fast(self, call: Call[T]) -> T:
        """Run a frequent call without settings on the fast connection if that is free.

        Canceling the caller does not undo a call that was sent.
        """
        if self._fast_connection is None or self._fast_connection.is_busy:
            return await self.run(call)
        return await self._fast_connection.run(call)

    async def run_all(self, tenant_id: UUID, calls: Iterable[Call[T]]) -> list[T]:
        """Run all calls in one transaction.

        Each call is sent as soon as `calls` yields it, so the server works on the previous ones in
        the meantime.
        """
        sent = []
        async with self.tenant(tenant_id) as scope:
            with DriverErrorTranslator():
                for call in calls:
                    cursor = psycopg.AsyncCursor(scope.connection, row_factory=tuple_row)
                    await cursor.execute(call.sql, call.parameters, binary=True)
                    sent.append((call, cursor))
                return [call.decode(await cursor.fetchall()) for call, cursor in sent]

    @asynccontextmanager
    async def tenant(self, tenant_id: UUID) -> AsyncIterator["TenantTransaction"]:
        """Open a transaction for one tenant: commit on exit, roll back on an error."""
        async with self.connection() as conn:
            with DriverErrorTranslator() as translator:
                try:
                    # In the pipeline, BEGIN and the setting travel with the first call.
                    async with conn.pipeline():
                        await conn.execute("begin")
                        await conn.execute(SET_LOCAL, ("app.tenant_id", str(tenant_id)))
                        with translator.pass_through_body_errors():
                            yield TenantTransaction(conn)
                        commit = await conn.execute("commit")
                    check_committed(commit.statusmessage)
                finally:
                    if not conn.closed:
                        await conn.rollback()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncPreparedConnection]:
        """Check out a pooled connection, in autocommit mode, for the caller's own transaction."""
        with DriverErrorTranslator():
            conn = await self._pool.getconn()
        try:
            yield conn
        finally:
            await self._pool.putconn(conn)

    def create_link(self, *, durable: bool = True) -> DedicatedConnection:
        """Return a connection outside the pool, for one loop."""
        return DedicatedConnection(
            self._settings, durable=durable, behind_pooler=self._behind_pooler
        )

    @asynccontextmanager
    async def listen(self, *channels: str) -> AsyncIterator[AsyncIterator[str]]:
        """Yield the channel name of each notification, on a separate connection."""
        if not self.can_listen:
            raise ConfigError(
                "LISTEN does not work through a pooler",
                hint="Set listen_url to a URL that bypasses the pooler, or rely on polling",
            )
        with DriverErrorTranslator():
            conn = await psycopg.AsyncConnection.connect(**self._listen_settings)
        async with conn:
            with DriverErrorTranslator():
                for channel in channels:
                    await conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
            async with aclosing(_iter_notifications(conn)) as names:
                yield names

    async def inspect(self) -> Inspection:
        """Return the server's version and settings, and this login's rights."""
        async with self.connection() as conn:
            return await arun(conn, inspect(conn.info.backend_pid))


@dataclass(frozen=True, slots=True)
class TenantTransaction:
    """An open tenant transaction; its BEGIN travels with the first call."""

    connection: AsyncConnection

    async def run(self, call: Call[T]) -> T:
        if call.tenant is not None:  # later calls would use that tenant too
            raise Conflict("The transaction already has a tenant")
        return await arun(self.connection, call)


async def _acheck(conn: AsyncPreparedConnection) -> None:
    """Raise if an idle pooled connection was closed by the server."""
    if conn.input_poll.poll(0):
        await AsyncConnectionPool.check_connection(conn)


async def _iter_notifications(conn: AsyncConnection) -> AsyncGenerator[str, None]:
    # psycopg's own generator wakes up ten times a second to check whether it was stopped.
    has_input, socket = asyncio.Event(), conn.fileno()
    loop = asyncio.get_running_loop()
    loop.add_reader(socket, has_input.set)
    try:
        while True:
            await has_input.wait()
            has_input.clear()
            with DriverErrorTranslator():
                conn.pgconn.consume_input()
            while notice := conn.pgconn.notifies():
                yield notice.relname.decode(conn.info.encoding)
    finally:
        loop.remove_reader(socket)
