"""Runs calls on an asyncpg connection or on a connection of an asyncpg pool."""

from typing import Any, TypeVar
from uuid import UUID

import asyncpg  # type: ignore[import-untyped] # asyncpg has no types

from jobforge.calls import Call
from jobforge.db.sqlstates import error_from_sqlstate
from jobforge.errors import Conflict, Invalid, JobForgeError, Unavailable
from jobforge.integrations.placeholders import to_positional

T = TypeVar("T")


async def arun(conn: Any, call: Call[T]) -> T:  # noqa: ANN401 - a Connection or a PoolConnectionProxy
    try:
        records = await conn.fetch(to_positional(call.sql), *call.parameters)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise explanation(error) from error
    return call.decode([tuple(map(_to_standard_uuid, record)) for record in records])


def explanation(error: BaseException) -> JobForgeError:
    """Return the JobForge error for an asyncpg error."""
    if isinstance(error, asyncpg.InFailedSQLTransactionError):
        return Conflict("Nothing was changed: an earlier statement in this transaction failed")
    if isinstance(error, asyncpg.DataError | asyncpg.PostgresSyntaxError | ValueError):
        return Invalid(str(error))
    if isinstance(error, asyncpg.PostgresError):
        return error_from_sqlstate(
            getattr(error, "sqlstate", None),
            str(error.args[0]),
            getattr(error, "detail", None),
            getattr(error, "hint", None),
        )
    return Unavailable(str(error))


def _to_standard_uuid(value: Any) -> Any:  # noqa: ANN401 - a value of any column
    # asyncpg returns a subclass of UUID, which orjson does not serialize.
    return UUID(int=value.int) if isinstance(value, UUID) else value
