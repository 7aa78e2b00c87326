"""Runs a call in the transaction of the caller's connection, of any supported library.

The library is detected by the connection's class, so none is imported before use. The call names
its tenant by argument and changes no setting of the connection. A failed call leaves the
transaction in the same state as any failed statement.
"""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from importlib import import_module
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


@lru_cache(maxsize=100)
def find_run(kind: type) -> Callable[[Any, Call[Any]], Any]:
    """Return the function that runs a call on connections of this class."""
    if is_async(kind):
        raise Invalid("The connection is async; use aenqueue", field="conn")
    run: Callable[[Any, Call[Any]], Any] = _import_library(kind, _SYNC).run
    return run


@lru_cache(maxsize=100)
def find_arun(kind: type) -> Callable[[Any, Call[Any]], Awaitable[Any]]:
    """Like `find_run`, for async code."""
    if kind is str:
        run = find_run(kind)
        return lambda conn, call: _in_thread_of_django(run, conn, call)
    if not is_async(kind):
        raise Invalid("The connection is not async; use enqueue", field="conn")
    arun: Callable[[Any, Call[Any]], Awaitable[Any]] = _import_library(kind, _ASYNC).arun
    return arun


def run_on(conn: Any, call: Call[T]) -> T | Awaitable[T]:  # noqa: ANN401 - a connection of any library
    """Run the call; for an async connection, return an awaitable of its result."""
    kind = conn.__class__
    returned: T | Awaitable[T] = (find_arun if is_async(kind) else find_run)(kind)(conn, call)
    return returned


def is_async(kind: type) -> bool:
    """Whether connections of this class are async; raise Invalid for an unsupported class."""
    if kind is str or _find_library(kind, _SYNC):
        return False
    if _find_library(kind, _ASYNC):
        return True
    raise Invalid(
        f"conn must not be a {kind.__module__}.{kind.__qualname__}, but a connection,"
        " cursor or session of psycopg, SQLAlchemy, Django or asyncpg, or the alias of a Django"
        " database",
        field="conn",
    )


async def _in_thread_of_django(function: Callable[..., T], *args: Any) -> T:  # noqa: ANN401 - the function's arguments
    """Run the function in the thread that Django uses for database access from async code."""
    from asgiref.sync import sync_to_async  # noqa: PLC0415 - installed with Django

    result: T = await sync_to_async(function)(*args)
    return result


def _import_library(kind: type, known: dict[str, set[str]]) -> Any:  # noqa: ANN401 - a module of this package
    library = _find_library(kind, known) or "django"
    try:
        return import_module(f"jobforge.integrations.{library}")
    except ImportError as error:
        if kind is not str:
            raise
        raise Invalid(
            "conn as a string is the alias of a Django database, but Django is not installed",
            field="conn",
        ) from error


def _find_library(kind: type, known: dict[str, set[str]]) -> str | None:
    for each in kind.__mro__:
        library = each.__module__.partition(".")[0]
        if each.__name__ in known.get(library, ()):
            return library
    return None
