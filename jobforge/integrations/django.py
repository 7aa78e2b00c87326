"""Runs calls on a Django database; within `transaction.atomic` they join its transaction."""

from typing import Any, TypeVar

from django.core.exceptions import (  # type: ignore[import-untyped] # Django has no types
    ImproperlyConfigured,
    SynchronousOnlyOperation,
)
from django.db import DatabaseError, connections  # type: ignore[import-untyped]
from django.db.transaction import TransactionManagementError  # type: ignore[import-untyped]
from django.utils.connection import ConnectionDoesNotExist  # type: ignore[import-untyped]

from jobforge.calls import Call
from jobforge.db import driver
from jobforge.db.sqlstates import error_from_sqlstate
from jobforge.errors import Conflict, Invalid, JobForgeError
from jobforge.types import jsonb

T = TypeVar("T")

_JSONB = 3802  # type OID of jsonb, which Django's cursors return as text


def run(conn: Any, call: Call[T]) -> T:  # noqa: ANN401 - a Django connection, or its alias
    connection = _find_connection(conn) if isinstance(conn, str) else conn
    if connection.vendor != "postgresql":
        raise Invalid(f"conn must be a Postgres connection, not {connection.vendor}", field="conn")
    try:
        with connection.cursor() as cursor:
            cursor.execute(call.sql, call.parameters)
            columns = [column.type_code for column in cursor.description]
            rows = cursor.fetchall()
    except DatabaseError as error:
        raise _explanation(error) or error from error
    except SynchronousOnlyOperation as error:
        raise Conflict("Django connections cannot block async code; await aenqueue(…)") from error
    return call.decode([_decode_row(row, columns) for row in rows])


def _find_connection(alias: str) -> Any:  # noqa: ANN401 - a Django connection
    try:
        return connections[alias]
    except (ConnectionDoesNotExist, ImproperlyConfigured):
        # Omit the alias from the message: it may be a URL with a password.
        raise Invalid("conn is not the alias of a Django database", field="conn") from None


def _decode_row(row: tuple[Any, ...], columns: list[int]) -> tuple[Any, ...]:
    return tuple(
        jsonb.decode(value) if column == _JSONB and isinstance(value, str) else value
        for value, column in zip(row, columns, strict=True)
    )


def _explanation(error: DatabaseError) -> JobForgeError | None:
    if isinstance(error, TransactionManagementError):
        return Conflict(str(error))
    driver_error = error.__cause__
    if driver_error is None:
        return None
    state = getattr(driver_error, "pgcode", None)  # set by psycopg2 only
    if state is not None:
        diagnosis = getattr(driver_error, "diag", None)
        message = getattr(diagnosis, "message_primary", None) or str(driver_error)
        return error_from_sqlstate(
            state,
            message,
            getattr(diagnosis, "message_detail", None),
            getattr(diagnosis, "message_hint", None),
        )
    return driver.translate_error(driver_error)
