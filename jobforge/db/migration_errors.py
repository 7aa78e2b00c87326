"""Errors of Postgres during a migration, with the file and line, and a hint."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from jobforge.errors import JobForgeError, MigrationError, Unavailable

MIGRATE = "jobforge db migrate"
REPAIR = "jobforge db migrate --repair"

_INSUFFICIENT_PRIVILEGE = "42501"
_LOCK_NOT_AVAILABLE = "55P03"
_HINTS = {
    _INSUFFICIENT_PRIVILEGE: "Grant the migrating user CREATEROLE, and CREATE on this database; "
    "later migrations require membership in jobforge_owner",
    _LOCK_NOT_AVAILABLE: "Another transaction locks a table that has to change; "
    "try again, or wait longer with --lock-timeout",
}


@contextmanager
def translate_errors(name: str, text: str = "") -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise migration_error(name, text, error) from error


def migration_error(name: str, text: str, error: psycopg.Error) -> JobForgeError:
    diagnosis = error.diag
    if diagnosis.sqlstate is None:
        return Unavailable(str(error).strip())
    position = int(diagnosis.statement_position or 0)
    line = f", line {text.count(chr(10), 0, position) + 1}" if text and position else ""
    hint = diagnosis.message_hint or _HINTS.get(diagnosis.sqlstate)
    return MigrationError(f"{name}{line}: {diagnosis.message_primary}", hint=hint)
