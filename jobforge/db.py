"""The seam to Postgres: connections, the tenant of a transaction, and running a Call.

Which functions there are, calls.py knows. Nothing here relies on the state of a session, so all of
it works through PgBouncer in transaction mode; only LISTEN needs a session, and has a connection of
its own. Every error of the driver becomes one of errors.py (driver.py) here.
"""

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from select import POLLIN, poll
from typing import Any, Self, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from jobforge import statement
from jobforge.calls import Answer, Call
from jobforge.driver import (
    DEFAULT_TIMEOUTS,
    FAILED_BEFORE,
    Explained,
    Timeouts,
    settings,
)
from jobforge.errors import ConfigError, Conflict
from jobforge.inspection import Inspection, inspect
from jobforge.spare import Spare
from jobforge.statement import AsyncSession, Session
from jobforge.wire import Watch, Wire

T = TypeVar("T")

# Rows of a connection that is not ours come as it likes; calls ask for tuples by themselves.
Connection = psycopg.Connection[Any]
AsyncConnection = psycopg.AsyncConnection[Any]

_SET_LOCAL = "select set_config(%s, %s, true)"


class Database:
    """A pool of connections to one database, for async code.

    `behind_pooler` is for PgBouncer in transaction mode: no start-up options and no prepared
    statements. LISTEN cannot go through it; `listen_url` leads past it.
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
        self._settings = settings(url, behind_pooler=behind_pooler, timeouts=timeouts)
        self._behind_pooler = behind_pooler
        self._listen_settings = self._settings
        if listen_url:
            self._listen_settings = settings(listen_url, behind_pooler=False, timeouts=timeouts)
        self.can_listen = bool(listen_url) or not behind_pooler
        self.keeps_operations = False
        self._made: weakref.WeakSet[AsyncSession] = weakref.WeakSet()
        self._pool = AsyncConnectionPool(
            connection_class=AsyncSession,
            kwargs=self._settings,
            configure=self._keep,
            min_size=1,
            max_size=size,
            timeout=10,
            check=_acheck,
            open=False,
        )
        # Behind a pooler nothing can be prepared; and of a single connection none is left over.
        self._wire = None if behind_pooler or size < 2 else Wire(self._pool)

    async def open(self) -> None:
        """Raises Unavailable at once, and says why, when the database cannot be reached."""
        with Explained():
            # The pool would try again in silence until its time is up.
            await (await psycopg.AsyncConnection.connect(**self._settings)).close()
            await self._pool.open(wait=True)

    async def close(self) -> None:
        if self._wire is not None:
            await self._wire.close()
        await self._pool.close()

    def drop(self) -> None:
        """Ends its connections after its loop was closed, where nothing can be awaited."""
        for conn in list(self._made):
            conn.pgconn.finish()

    async def _keep(self, conn: AsyncSession) -> None:
        self._made.add(conn)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, call: Call[T]) -> T:
        """The call in a transaction of its own: one round trip."""
        async with self.connection() as conn:
            if call.settings or not call.is_frequent or self._behind_pooler:
                return await arun(conn, call)
            with Explained():
                return await statement.aask(conn, call)

    async def run_swiftly(self, call: Call[T]) -> T:
        """As `run`, for a frequent call without settings; who gives up does not undo it."""
        if self._wire is None or self._wire.is_taken:
            return await self.run(call)
        return await self._wire.run(call)

    async def run_all(self, tenant_id: UUID, calls: Iterable[Call[T]]) -> list[T]:
        """All in one transaction. Each goes out as soon as it is made: meanwhile the server works
        on those before it.
        """
        sent = []
        async with self.tenant(tenant_id) as scope:
            with Explained():
                for call in calls:
                    cursor = psycopg.AsyncCursor(scope.connection, row_factory=tuple_row)
                    await cursor.execute(call.sql, call.parameters, binary=True)
                    sent.append((call, cursor))
                return [call.decode(await cursor.fetchall()) for call, cursor in sent]

    @asynccontextmanager
    async def tenant(self, tenant_id: UUID) -> AsyncIterator["Scope"]:
        """A transaction in the name of a tenant: commits at the end, rolls back on an error."""
        async with self.connection() as conn:
            with Explained() as explained:
                try:
                    # What opens the transaction travels with the first call.
                    async with conn.pipeline():
                        await conn.execute("begin")
                        await conn.execute(_SET_LOCAL, ("app.tenant_id", str(tenant_id)))
                        with explained.except_from_body():
                            yield Scope(conn)
                        commit = await conn.execute("commit")
                    _check_committed(commit.statusmessage)
                finally:
                    if not conn.closed:
                        await conn.rollback()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncSession]:
        """A connection of the pool, in autocommit, for a transaction of the caller's own."""
        with Explained():
            conn = await self._pool.getconn()
        try:
            yield conn
        finally:
            await self._pool.putconn(conn)

    def link(self, *, durable: bool = True) -> "Link":
        """A connection apart from the pool, for one loop."""
        return Link(self._settings, durable=durable, behind_pooler=self._behind_pooler)

    @asynccontextmanager
    async def listen(self, *channels: str) -> AsyncIterator[AsyncIterator[str]]:
        """The names of channels as they are notified, on a connection of its own."""
        if not self.can_listen:
            raise ConfigError(
                "LISTEN does not work through a pooler",
                hint="give a URL that leads to Postgres itself, or rely on polling",
            )
        with Explained():
            conn = await psycopg.AsyncConnection.connect(**self._listen_settings)
        async with conn:
            with Explained():
                for channel in channels:
                    await conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
            async with aclosing(_notified(conn)) as names:
                yield names

    async def inspect(self) -> Inspection:
        """What the server is like, and what this login may do there."""
        async with self.connection() as conn:
            return await arun(conn, inspect(conn.info.backend_pid))


@dataclass(frozen=True, slots=True)
class Scope:
    """An open transaction; the first call also carries what opened it."""

    connection: AsyncConnection

    async def run(self, call: Call[T]) -> T:
        if call.is_for_tenant:  # the calls after it would act for that tenant too
            raise Conflict("the transaction has its tenant already")
        return await arun(self.connection, call)


class Link:
    """A connection kept for one loop: opened when first used, and anew after it was lost.

    One call at a time. What a link that is not durable commits may be gone after a crash of the
    server.
    """

    def __init__(self, settings: dict[str, Any], *, durable: bool, behind_pooler: bool) -> None:
        self._settings = settings
        self._behind_pooler = behind_pooler
        self._is_relaxed_by_call = behind_pooler and not durable
        self._watch: Watch | None = None
        if not durable and not behind_pooler:
            options = f"{settings['options']} -c synchronous_commit=off"
            self._settings = {**settings, "options": options}

    async def run(self, call: Call[T]) -> T:
        return await (await self.ask(call)).read()

    async def ask(self, call: Call[T]) -> Answer[T]:
        """The answer is complete, and may be read while another call is on its way."""
        if self._watch is None or self._watch.connection.closed:
            with Explained():
                self._watch = Watch(await AsyncSession.connect(**self._settings))
        if self._is_relaxed_by_call:
            call = call.under("synchronous_commit", "off")
        try:
            return await self._ask(self._watch, call)
        except BaseException:
            # A call that was interrupted may still have its answer on the way.
            if not self._watch.is_idle:
                await self.close()
            raise

    async def close(self) -> None:
        if self._watch is not None and not self._watch.connection.closed:
            self._watch.close()
            await self._watch.connection.close()

    async def _ask(self, watch: Watch, call: Call[T]) -> Answer[T]:
        if call.is_frequent and not call.settings and not self._behind_pooler:
            with Explained():
                return await watch.ask(call)
        try:
            return await aask(watch.connection, call)
        finally:
            if not watch.connection.closed:
                watch.watch()


class Pool:
    """As Database, for code that is not async. Any thread may use it."""

    def __init__(
        self,
        url: str,
        *,
        size: int = 10,
        behind_pooler: bool = False,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self._settings = settings(url, behind_pooler=behind_pooler, timeouts=timeouts)
        self._behind_pooler = behind_pooler
        self._pool = ConnectionPool(
            connection_class=Session,
            kwargs=self._settings,
            min_size=1,
            max_size=size,
            timeout=10,
            check=_check,
            open=False,
        )
        self._spare = Spare(self._pool)

    def open(self) -> None:
        """Raises Unavailable at once, and says why, when the database cannot be reached."""
        with Explained():
            psycopg.connect(**self._settings).close()
            self._pool.open(wait=True)

    def close(self) -> None:
        self._spare.clear()
        self._pool.close()

    def run(self, call: Call[T]) -> T:
        """The call in a transaction of its own: one round trip."""
        with Explained():
            conn = self._spare.get()
            try:
                if call.settings or not call.is_frequent or self._behind_pooler:
                    return run(conn, call)
                return statement.ask(conn, call)
            finally:
                self._spare.put(conn)

    def run_all(self, tenant_id: UUID, calls: Iterable[Call[T]]) -> list[T]:
        """As Database.run_all."""
        sent = []
        with self.connection() as conn, tenant(conn, tenant_id), Explained():
            for call in calls:
                cursor = psycopg.Cursor(conn, row_factory=tuple_row)
                cursor.execute(call.sql, call.parameters, binary=True)
                sent.append((call, cursor))
            return [call.decode(cursor.fetchall()) for call, cursor in sent]

    @contextmanager
    def connection(self) -> Iterator[Session]:
        """A connection of the pool, in autocommit, for a transaction of the caller's own."""
        with Explained():
            conn = self._spare.get()
        try:
            yield conn
        finally:
            self._spare.put(conn)

    def inspect(self) -> Inspection:
        with self.connection() as conn:
            return run(conn, inspect(conn.info.backend_pid))


@contextmanager
def connect(
    url: str, *, behind_pooler: bool = False, timeouts: Timeouts = DEFAULT_TIMEOUTS
) -> Iterator[Connection]:
    """A connection for code that is not async, in autocommit; closed at the end."""
    given = settings(url, behind_pooler=behind_pooler, timeouts=timeouts)
    with Explained():
        conn: Connection = psycopg.connect(**given)
    with conn:
        yield conn


@contextmanager
def tenant(conn: Connection, tenant_id: UUID) -> Iterator[None]:
    """A transaction in the name of a tenant, on a connection of `connect`."""
    with Explained() as explained:
        try:
            with conn.pipeline():
                conn.execute("begin")
                conn.execute(_SET_LOCAL, ("app.tenant_id", str(tenant_id)))
                with explained.except_from_body():
                    yield
                commit = conn.execute("commit")
            _check_committed(commit.statusmessage)
        finally:
            if not conn.closed:
                conn.rollback()


@contextmanager
def transaction(conn: Connection, tenant_id: UUID) -> Iterator[None]:
    """As `tenant`, for statements of the caller's own: each is sent, and may fail, by itself."""
    with Explained(), conn.pipeline():
        conn.execute("begin")
        conn.execute(_SET_LOCAL, ("app.tenant_id", str(tenant_id)))
    try:
        yield
        with Explained():
            _check_committed(conn.execute("commit").statusmessage)
    finally:
        if not conn.closed:
            conn.rollback()


@asynccontextmanager
async def atransaction(conn: AsyncConnection, tenant_id: UUID) -> AsyncIterator[None]:
    """As `transaction`, for async connections."""
    with Explained():
        async with conn.pipeline():
            await conn.execute("begin")
            await conn.execute(_SET_LOCAL, ("app.tenant_id", str(tenant_id)))
    try:
        yield
        with Explained():
            _check_committed((await conn.execute("commit")).statusmessage)
    finally:
        if not conn.closed:
            await conn.rollback()


def run(conn: Connection, call: Call[T]) -> T:
    """The call on any connection: within its transaction, or in one of its own."""
    cursor = psycopg.Cursor(conn, row_factory=tuple_row)
    with Explained():
        if not call.settings:
            cursor.execute(call.sql, call.parameters, binary=True)
            return call.decode(cursor.fetchall())
        with conn.pipeline():
            for setting in call.settings:
                conn.execute(_SET_LOCAL, setting)
            cursor.execute(call.sql, call.parameters, binary=True)
        return call.decode(cursor.fetchall())


async def arun(conn: AsyncConnection, call: Call[T]) -> T:
    """As `run`, for async connections."""
    return await (await aask(conn, call)).read()


async def aask(conn: AsyncConnection, call: Call[T]) -> Answer[T]:
    """As `arun`, but reading the answer is left for later."""
    cursor = psycopg.AsyncCursor(conn, row_factory=tuple_row)

    async def read() -> T:
        with Explained():
            return call.decode(await cursor.fetchall())

    with Explained():
        if not call.settings:
            await cursor.execute(call.sql, call.parameters, binary=True)
            return Answer(cursor.rowcount, read)
        async with conn.pipeline():
            for setting in call.settings:
                await conn.execute(_SET_LOCAL, setting)
            await cursor.execute(call.sql, call.parameters, binary=True)
        return Answer(cursor.rowcount, read)


def _check_committed(answer: str | None) -> None:
    # Where a statement has failed, and the caller passed over it, Postgres answers "ROLLBACK".
    if answer != "COMMIT":
        raise Conflict(FAILED_BEFORE)


def _check(conn: Connection) -> None:
    """Refuses a connection of a pool that was cut while nobody used it."""
    if _has_news(conn):
        ConnectionPool.check_connection(conn)


async def _acheck(conn: AsyncConnection) -> None:
    if _has_news(conn):
        await AsyncConnectionPool.check_connection(conn)


def _has_news(conn: Connection | AsyncConnection) -> bool:
    # The server speaks unasked only to say that it is going; a look at the socket costs no trip.
    looked = poll()
    looked.register(conn.fileno(), POLLIN)
    return bool(looked.poll(0))


async def _notified(conn: AsyncConnection) -> AsyncGenerator[str, None]:
    # Not by the driver, which looks ten times a second whether it was told to stop.
    news, socket = asyncio.Event(), conn.fileno()
    loop = asyncio.get_running_loop()
    loop.add_reader(socket, news.set)
    try:
        while True:
            await news.wait()
            news.clear()
            with Explained():
                conn.pgconn.consume_input()
            while notice := conn.pgconn.notifies():
                yield notice.relname.decode(conn.info.encoding)
    finally:
        loop.remove_reader(socket)
