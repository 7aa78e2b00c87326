"""One connection, ours or not: a call on it, and transactions in the name of a tenant."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from select import POLLIN, poll
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from jobforge.calls import Call, PendingResult
from jobforge.db.driver import (
    DEFAULT_TIMEOUTS,
    EARLIER_CALL_FAILED,
    DriverErrorTranslator,
    Timeouts,
    build_connect_kwargs,
)
from jobforge.errors import Conflict

T = TypeVar("T")

# Rows of a connection that is not ours come as it likes; calls ask for tuples by themselves.
Connection = psycopg.Connection[Any]
AsyncConnection = psycopg.AsyncConnection[Any]

SET_LOCAL = "select set_config(%s, %s, true)"


@contextmanager
def connect(
    url: str, *, behind_pooler: bool = False, timeouts: Timeouts = DEFAULT_TIMEOUTS
) -> Iterator[Connection]:
    """A connection for code that is not async, in autocommit; closed at the end."""
    given = build_connect_kwargs(url, behind_pooler=behind_pooler, timeouts=timeouts)
    with DriverErrorTranslator():
        conn: Connection = psycopg.connect(**given)
    with conn:
        yield conn


@contextmanager
def tenant(conn: Connection, tenant_id: UUID) -> Iterator[None]:
    """A transaction in the name of a tenant, on a connection of `connect`."""
    with DriverErrorTranslator() as explained:
        try:
            with conn.pipeline():
                conn.execute("begin")
                conn.execute(SET_LOCAL, ("app.tenant_id", str(tenant_id)))
                with explained.pass_through_body_errors():
                    yield
                commit = conn.execute("commit")
            check_committed(commit.statusmessage)
        finally:
            if not conn.closed:
                conn.rollback()


@contextmanager
def transaction(conn: Connection, tenant_id: UUID) -> Iterator[None]:
    """As `tenant`, for statements of the caller's own: each is sent, and may fail, by itself."""
    with DriverErrorTranslator(), conn.pipeline():
        conn.execute("begin")
        conn.execute(SET_LOCAL, ("app.tenant_id", str(tenant_id)))
    try:
        yield
        with DriverErrorTranslator():
            check_committed(conn.execute("commit").statusmessage)
    finally:
        if not conn.closed:
            conn.rollback()


@asynccontextmanager
async def atransaction(conn: AsyncConnection, tenant_id: UUID) -> AsyncIterator[None]:
    """As `transaction`, for async connections."""
    with DriverErrorTranslator():
        async with conn.pipeline():
            await conn.execute("begin")
            await conn.execute(SET_LOCAL, ("app.tenant_id", str(tenant_id)))
    try:
        yield
        with DriverErrorTranslator():
            check_committed((await conn.execute("commit")).statusmessage)
    finally:
        if not conn.closed:
            await conn.rollback()


def run(conn: Connection, call: Call[T]) -> T:
    """The call on any connection: within its transaction, or in one of its own."""
    cursor = psycopg.Cursor(conn, row_factory=tuple_row)
    with DriverErrorTranslator():
        if not call.settings:
            cursor.execute(call.sql, call.parameters, binary=True)
            return call.decode(cursor.fetchall())
        with conn.pipeline():
            for setting in call.settings:
                conn.execute(SET_LOCAL, setting)
            cursor.execute(call.sql, call.parameters, binary=True)
        return call.decode(cursor.fetchall())


async def arun(conn: AsyncConnection, call: Call[T]) -> T:
    """As `run`, for async connections."""
    return await (await asend(conn, call)).read()


async def asend(conn: AsyncConnection, call: Call[T]) -> PendingResult[T]:
    """As `arun`, but reading the answer is left for later."""
    cursor = psycopg.AsyncCursor(conn, row_factory=tuple_row)

    async def read() -> T:
        with DriverErrorTranslator():
            return call.decode(await cursor.fetchall())

    with DriverErrorTranslator():
        if not call.settings:
            await cursor.execute(call.sql, call.parameters, binary=True)
            return PendingResult(cursor.rowcount, read)
        async with conn.pipeline():
            for setting in call.settings:
                await conn.execute(SET_LOCAL, setting)
            await cursor.execute(call.sql, call.parameters, binary=True)
        return PendingResult(cursor.rowcount, read)


def check_committed(answer: str | None) -> None:
    # Where a statement has failed, and the caller passed over it, Postgres answers "ROLLBACK".
    if answer != "COMMIT":
        raise Conflict(EARLIER_CALL_FAILED)


def has_pending_input(conn: Connection | AsyncConnection) -> bool:
    # The server speaks unasked only to say that it is going; a look at the socket costs no trip.
    looked = poll()
    looked.register(conn.fileno(), POLLIN)
    return bool(looked.poll(0))
