"""Runs a call in the transaction of the caller's connection, of any supported library.

The library is detected by the connection's class, so none is imported before use. The call names
its tenant by argument and changes no setting of the connection. A failed call leaves the
transaction in the same state as any failed statement.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from jobforge.calls import Call
from jobforge.errors import Invalid

T = TypeVar("T")

# Class names of supported connections by library; subclasses are accepted.
_ASYNC = {
    "sqlalchemy": {"AsyncSession", "AsyncConnection", "async_scoped_session"},
    "asyncpg": {"Connection", "PoolConnectionProxy"},
    "psycopg": {"AsyncConnection", "AsyncCursor"},
}
_SYNC = {
    "sqlalchemy": {"Session", "Connection", "scoped_session"},
    "django": {"BaseDatabaseWrapper", "ConnectionProxy"},
    "psycopg": {"Connection", "Cursor"},
}


def is_async(conn: Any) -> bool:  # noqa: ANN401 - a connection of any library
    """Whether the connection is async; raise Invalid for an unsupported object."""
    if isinstance(conn, str) or _library(conn, _SYNC):
        return False
    if _library(conn, _ASYNC):
        return True
    raise Invalid(
        f"conn must not be a {type(conn).__module__}.{type(conn).__qualname__}, but a connection,"
        " cursor or session of psycopg, SQLAlchemy, Django or asyncpg, or the alias of a Django"
        " database",
        field="conn",
    )


def run(conn: Any, call: Call[T]) -> T:  # noqa: ANN401 - a connection of any library
    if is_async(conn):
        raise Invalid("The connection is async; use aenqueue", field="conn")
    library = _library(conn, _SYNC)
    if library == "psycopg":
        from jobforge.integrations import psycopg  # noqa: PLC0415 - the library is an optional dependency

        return psycopg.run(conn, call)
    if library == "sqlalchemy":
        from jobforge.integrations import sqlalchemy  # noqa: PLC0415 - the library is an optional dependency

        return sqlalchemy.run(conn, call)
    try:
        from jobforge.integrations import django  # noqa: PLC0415 - the library is an optional dependency
    except ImportError as error:
        raise _no_alias() from error
    return django.run(conn, call)


async def arun(conn: Any, call: Call[T]) -> T:  # noqa: ANN401 - a connection of any library
    if isinstance(conn, str):
        try:
            return await in_thread_of_django(run, conn, call)
        except ImportError as error:
            raise _no_alias() from error
    if not is_async(conn):
        raise Invalid("The connection is not async; use enqueue", field="conn")
    library = _library(conn, _ASYNC)
    if library == "psycopg":
        from jobforge.integrations import psycopg  # noqa: PLC0415 - the library is an optional dependency

        return await psycopg.arun(conn, call)
    if library == "sqlalchemy":
        from jobforge.integrations import sqlalchemy  # noqa: PLC0415 - the library is an optional dependency

        return await sqlalchemy.arun(conn, call)
    from jobforge.integrations import asyncpg  # noqa: PLC0415 - the library is an optional dependency

    return await asyncpg.arun(conn, call)


async def in_thread_of_django(function: Callable[..., T], *args: Any) -> T:  # noqa: ANN401 - the function's arguments
    """Run the function in the thread that Django uses for database access from async code."""
    from asgiref.sync import sync_to_async  # noqa: PLC0415 - installed with Django

    result: T = await sync_to_async(function)(*args)
    return result


def run_on(conn: Any, call: Call[T]) -> T | Awaitable[T]:  # noqa: ANN401 - a connection of any library
    """Run the call; for an async connection, return an awaitable of its result."""
    return arun(conn, call) if is_async(conn) else run(conn, call)


def _no_alias() -> Invalid:
    return Invalid(
        "conn as a string is the alias of a Django database, but Django is not installed",
        field="conn",
    )


def _library(conn: Any, known: dict[str, set[str]]) -> str | None:  # noqa: ANN401 - a connection of any library
    for kind in type(conn).__mro__:
        library = kind.__module__.partition(".")[0]
        if kind.__name__ in known.get(library, ()):
            return library
    return None
