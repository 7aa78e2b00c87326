"""Run a Call on a single connection, the engine's or the caller's, and open tenant transactions."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from jobforge.calls import Call, PendingResult
from jobforge.db.driver import (
    DEFAULT_TIMEOUTS,
    EARLIER_CALL_FAILED,
    TRANSLATED_ERRORS,
    DriverErrorTranslator,
    Timeouts,
    build_connect_kwargs,
    raise_translated,
)
from jobforge.errors import Conflict

T = TypeVar("T")

# A caller's connection may have any row factory; run() and asend() request tuples explicitly.
Connection = psycopg.Connection[Any]
AsyncConnection = psycopg.AsyncConnection[Any]

SET_LOCAL = "select set_config(%s, %s, true)"


@contextmanager
def connect(
    url: str, *, behind_pooler: bool = False, timeouts: Timeouts = DEFAULT_TIMEOUTS
) -> Iterator[Connection]:
    """Open a synchronous connection in autocommit mode; close it on exit."""
    kwargs = build_connect_kwargs(url, behind_pooler=behind_pooler, timeouts=timeouts)
    with DriverErrorTranslator():
        conn: Connection = psycopg.connect(**kwargs)
    with conn:
        yield conn


@contextmanager
def tenant(conn: Connection, tenant_id: UUID) -> Iterator[None]:
    """Run the body in a transaction for one tenant.

    All statements go out in one pipeline, so they share their round trips.
    """
    with DriverErrorTranslator() as translator:
        try:
            with conn.pipeline():
                conn.execute("begin")
                conn.execute(SET_LOCAL, ("app.tenant_id", str(tenant_id)))
                with translator.pass_through_body_errors():
                    yield
                commit = conn.execute("commit")
            check_committed(commit.statusmessage)
        finally:
            if not conn.closed:
                conn.rollback()


@contextmanager
def transaction(conn: Connection, tenant_id: UUID) -> Iterator[None]:
    """Run the body in a transaction for one tenant, without a pipeline.

    For the caller's own statements: each is sent at once, and raises its own error.
    """
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
    """Async twin of `transaction`."""
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
    """Run a call on any connection: in its open transaction, or in a new one."""
    cursor = psycopg.Cursor(conn, row_factory=tuple_row)
    try:
        if not call.settings:
            cursor.execute(call.sql, call.parameters, binary=True)
            return call.decode(cursor.fetchall())
        with conn.pipeline():
            for setting in call.settings:
                conn.execute(SET_LOCAL, setting)
            cursor.execute(call.sql, call.parameters, binary=True)
        return call.decode(cursor.fetchall())
    except TRANSLATED_ERRORS as error:
        raise_translated(error)


async def arun(conn: AsyncConnection, call: Call[T]) -> T:
    """Async twin of `run`."""
    return await (await asend(conn, call)).read()


async def asend(conn: AsyncConnection, call: Call[T]) -> PendingResult[T]:
    """Run a call like `arun`, but leave reading the rows to the caller."""
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


def check_committed(status: str | None) -> None:
    # If a statement failed and the caller caught its error, Postgres completes COMMIT as ROLLBACK.
    if status != "COMMIT":
        raise Conflict(EARLIER_CALL_FAILED)
