"""Runs calls on a Session or Connection of SQLAlchemy, sync or async, over psycopg or asyncpg.

Calls use SQLAlchemy's API, not the driver's connection, so that SQLAlchemy begins its transaction,
and its logging and events include the statement.
"""

from typing import Any, TypeVar

from sqlalchemy import Connection, Dialect
from sqlalchemy.exc import DBAPIError, InvalidRequestError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from jobforge.calls import Call
from jobforge.db import driver
from jobforge.errors import Conflict, Invalid, JobForgeError
from jobforge.integrations.placeholders import to_positional

T = TypeVar("T")


def run(conn: Any, call: Call[T]) -> T:  # noqa: ANN401 - a Session, scoped_session or Connection
    try:
        connection = conn if isinstance(conn, Connection) else conn.connection()
        rows = connection.exec_driver_sql(*_statement(connection.dialect, call)).fetchall()
    except SQLAlchemyError as error:
        raise _explanation(error) or error from error
    return call.decode([tuple(row) for row in rows])


async def arun(conn: Any, call: Call[T]) -> T:  # noqa: ANN401 - the async classes of these
    try:
        connection = conn if isinstance(conn, AsyncConnection) else await conn.connection()
        result = await connection.exec_driver_sql(*_statement(connection.dialect, call))
    except SQLAlchemyError as error:
        raise _explanation(error) or error from error
    return call.decode([tuple(row) for row in result.fetchall()])


def _statement(dialect: Dialect, call: Call[Any]) -> tuple[str, tuple[Any, ...]]:
    if dialect.name != "postgresql":
        raise Invalid(f"conn must be a Postgres connection, not {dialect.name}", field="conn")
    sql = to_positional(call.sql) if dialect.driver == "asyncpg" else call.sql
    return sql, tuple(call.parameters)


def _explanation(error: SQLAlchemyError) -> JobForgeError | None:
    if isinstance(error, InvalidRequestError):  # such as a transaction that failed earlier
        return Conflict(str(error))
    if not isinstance(error, DBAPIError) or error.orig is None:
        return None
    driver_error = error.orig.__cause__  # SQLAlchemy wraps asyncpg's errors twice
    if driver_error is not None and type(driver_error).__module__.startswith("asyncpg"):
        from jobforge.integrations import asyncpg  # noqa: PLC0415 - the library is an optional dependency

        return asyncpg.explanation(driver_error)
    return driver.translate_error(error.orig)
