"""The schema in a database, brought to what the files under sql/ say.

Owns the record of what was applied (`jobforge.migrations`, one row per file with its checksum),
the decision what is due, and applying it in one transaction. The files are schema.py's.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from jobforge.condition import AppliedFile
from jobforge.errors import JobForgeError, MigrationError, Unavailable
from jobforge.schema import ADVISORY_LOCK, SEARCH_PATH, SQL, Script, scripts

LOCK_TIMEOUT = "5s"

# A second migration waits for the first to end, not for a table; that may take longer.
_WAIT_FOR_OTHERS = "10min"

_INSUFFICIENT_PRIVILEGE = "42501"
_LOCK_NOT_AVAILABLE = "55P03"
_HINTS = {
    _INSUFFICIENT_PRIVILEGE: "the migrating user needs CREATEROLE, and CREATE on this database; "
    "later migrations need membership in jobforge_owner",
    _LOCK_NOT_AVAILABLE: "a transaction holds a table that has to change; "
    "try again, or wait longer with --lock-timeout",
}

# Rows may come as tuples or dicts, as the caller's connection has it.
Connection = psycopg.Connection[Any]


class State(StrEnum):
    """How a file stands to what the database has recorded."""

    APPLIED = "applied"
    DUE = "due"
    CHANGED = "changed"  # applied in another version; to be applied again
    TAMPERED = "tampered"  # a migration that was edited after it ran
    UNKNOWN = "unknown"  # recorded, but this release has no such file


@dataclass(frozen=True, slots=True)
class FileStatus:
    name: str
    state: State
    applied_at: datetime | None


def status(conn: Connection, root: Path = SQL) -> list[FileStatus]:
    """Every file in order of application, then what is recorded and has no file."""
    return _compared(_recorded(conn), root)


def outdated(applied: Iterable[AppliedFile], root: Path = SQL) -> list[str]:
    """The files that a database, which has applied these, does not have as this release does."""
    recorded = {each.name: _Record(each.checksum, each.applied_at) for each in applied}
    return [each.name for each in _compared(recorded, root) if each.state is not State.APPLIED]


def _compared(recorded: "dict[str, _Record]", root: Path) -> list[FileStatus]:
    files = scripts(root)
    known = [_status_of(script, recorded.pop(script.name, None)) for script in files]
    gone = [
        FileStatus(name, State.UNKNOWN, record.applied_at)
        for name, record in sorted(recorded.items())
    ]
    return known + gone


def plan(conn: Connection, root: Path = SQL) -> list[Script]:
    """The files that `migrate` would apply now. Raises MigrationError when it would refuse."""
    states = {file.name: file.state for file in status(conn, root)}
    _refuse_tampered(states)
    _refuse_newer_database(states)
    stale = {name for name, state in states.items() if state in (State.DUE, State.CHANGED)}
    return [script for script in scripts(root) if _is_due(script, stale)]


def migrate(
    conn: Connection,
    *,
    lock_timeout: str = LOCK_TIMEOUT,
    root: Path = SQL,
    tell: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Applies what is due, all or nothing, and returns the names. Safe to run twice and at once.
    `tell` hears how many files of how many are applied.

    `lock_timeout` bounds each wait for a table that somebody else holds, so that a migration never
    stands for long in a queue in front of the workers' own statements.
    """
    with _transaction(conn, lock_timeout):
        due = plan(conn, root)
        for number, script in enumerate(due, 1):
            _apply(conn, script)
            if tell is not None:
                tell(number, len(due))
        if due:
            _forget_removed_functions(conn, root)
    return [script.name for script in due]


def drop(conn: Connection) -> None:
    """Drops the schema with all that is in it. Roles stay: they belong to the whole server."""
    with _transaction(conn, LOCK_TIMEOUT), _explained("drop"):
        conn.execute("drop schema if exists jobforge cascade")


def count_jobs(conn: Connection) -> int:
    """All of all tenants, in whatever state, as far as the login sees them."""
    with _explained("count"):
        cursor = conn.cursor(row_factory=tuple_row)
        cursor.execute("select to_regclass('jobforge.all_jobs') is not null")
        if cursor.fetchone() == (False,):
            return 0
        cursor.execute("select count(*) from jobforge.all_jobs")
        (count,) = cursor.fetchone() or (0,)
    return int(count)


def check(conn: Connection, root: Path = SQL) -> None:
    """Raises MigrationError when migrations are due or were tampered with."""
    due = plan(conn, root)
    if due:
        names = ", ".join(script.name for script in due)
        raise MigrationError(f"migrations are due: {names}", hint="run: jobforge db migrate")


@dataclass(frozen=True, slots=True)
class _Record:
    checksum: str
    applied_at: datetime


def _recorded(conn: Connection) -> dict[str, _Record]:
    with _explained("jobforge.migrations"), conn.transaction():
        cursor = conn.cursor(row_factory=tuple_row)
        cursor.execute("select to_regclass('jobforge.migrations') is not null")
        if cursor.fetchone() == (False,):
            return {}
        # Operators may look with rights of their own.
        cursor.execute("select pg_has_role(session_user, 'jobforge_admin', 'usage')")
        if cursor.fetchone() == (False,):
            cursor.execute("set local role jobforge_owner")
        cursor.execute("select name, checksum, applied_at from jobforge.migrations")
        records = {name: _Record(checksum, applied_at) for name, checksum, applied_at in cursor}
        cursor.execute("reset role")
    return records


def _status_of(script: Script, record: _Record | None) -> FileStatus:
    if record is None:
        return FileStatus(script.name, State.DUE, None)
    if record.checksum == script.checksum:
        return FileStatus(script.name, State.APPLIED, record.applied_at)
    state = State.TAMPERED if script.is_migration else State.CHANGED
    return FileStatus(script.name, state, record.applied_at)


def _refuse_tampered(states: dict[str, State]) -> None:
    tampered = [name for name, state in states.items() if state is State.TAMPERED]
    if tampered:
        raise MigrationError(
            f"changed after it was applied: {', '.join(tampered)}",
            hint="restore the file of the release; a change to the tables is a new migration",
        )


def _refuse_newer_database(states: dict[str, State]) -> None:
    # An older release would put its older functions over newer tables.
    unknown = [name for name, state in states.items() if state is State.UNKNOWN]
    newer = [name for name in unknown if name.startswith("migrations/")]
    if newer:
        raise MigrationError(
            f"the database is newer than this release: it has {', '.join(newer)}",
            hint="upgrade jobforge here",
        )


def _is_due(script: Script, stale: set[str]) -> bool:
    if script.is_migration:
        return script.name in stale
    if script.is_function:
        return any(name.startswith("functions/") for name in stale)
    return bool(stale)


@contextmanager
def _transaction(conn: Connection, lock_timeout: str) -> Iterator[None]:
    if conn.info.transaction_status is not TransactionStatus.IDLE:
        raise MigrationError("the connection is inside a transaction; migrate needs its own")
    with conn.transaction():
        with _explained("migrate"):
            # Read committed: the plan must see what an earlier migration, waited for, has done.
            conn.execute("set transaction isolation level read committed")
            conn.execute("set local statement_timeout = 0")
            _set_local(conn, "search_path", SEARCH_PATH)
            _set_local(conn, "lock_timeout", _WAIT_FOR_OTHERS)
            conn.execute("select pg_advisory_xact_lock(%s)", [ADVISORY_LOCK])
            _set_local(conn, "lock_timeout", lock_timeout)
        yield


def _set_local(conn: Connection, name: str, value: str) -> None:
    conn.execute("select set_config(%s, %s, true)", [name, value])


def _apply(conn: Connection, script: Script) -> None:
    with _explained(script.name, script.text):
        if script.role:
            _set_local(conn, "role", script.role)
        # Functions call each other: the first one would be checked against what is not there yet.
        _set_local(conn, "check_function_bodies", "off" if script.is_function else "on")
        conn.execute(script.text.encode())
        _set_local(conn, "role", "jobforge_owner")
        conn.execute(
            """
            insert into jobforge.migrations (name, checksum) values (%s, %s)
            on conflict (name) do update
            set checksum = excluded.checksum, applied_at = clock_timestamp()
            """,
            [script.name, script.checksum],
        )
        conn.execute("reset role")


def _forget_removed_functions(conn: Connection, root: Path) -> None:
    functions = [script.name for script in scripts(root) if script.is_function]
    with _explained("jobforge.migrations"):
        _set_local(conn, "role", "jobforge_owner")
        conn.execute(
            "delete from jobforge.migrations where name like 'functions/%%' and name <> all(%s)",
            [functions],
        )
        conn.execute("reset role")


@contextmanager
def _explained(name: str, text: str = "") -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise _explanation(name, text, error) from error


def _explanation(name: str, text: str, error: psycopg.Error) -> JobForgeError:
    diagnosis = error.diag
    if diagnosis.sqlstate is None:
        return Unavailable(str(error).strip())
    position = int(diagnosis.statement_position or 0)
    line = f", line {text.count(chr(10), 0, position) + 1}" if text and position else ""
    hint = diagnosis.message_hint or _HINTS.get(diagnosis.sqlstate)
    return MigrationError(f"{name}{line}: {diagnosis.message_primary}", hint=hint)
