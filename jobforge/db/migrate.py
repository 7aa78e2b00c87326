"""Brings a database's schema up to date with the files under sql/.

Owns the record of applied files (`jobforge.migrations`, one row per file with its checksum),
decides which files are due, and applies them in one transaction. schema_files.py reads the files.
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

from jobforge.db.connection import Connection
from jobforge.db.schema_files import (
    DROP_STALE_FUNCTIONS,
    REMEMBER_FUNCTIONS,
    REVISION,
    ROLES,
    SEARCH_PATH,
    SERIALIZE_MIGRATIONS,
    SQL,
    Script,
    read_revision,
    read_scripts,
)
from jobforge.errors import JobForgeError, MigrationError, Unavailable
from jobforge.types.health import AppliedFile

LOCK_TIMEOUT = "5s"

# How long a migration waits for another migration to finish; longer than a wait for a table.
_WAIT_FOR_OTHERS = "10min"

MIGRATE = "jobforge db migrate"
REPAIR = "jobforge db migrate --repair"

_NAMED_AT_ONCE = 3

_INSUFFICIENT_PRIVILEGE = "42501"
_UNDEFINED_FUNCTION = "42883"
_LOCK_NOT_AVAILABLE = "55P03"
_HINTS = {
    _INSUFFICIENT_PRIVILEGE: "the migrating user needs CREATEROLE, and CREATE on this database; "
    "later migrations need membership in jobforge_owner",
    _LOCK_NOT_AVAILABLE: "a transaction holds a table that has to change; "
    "try again, or wait longer with --lock-timeout",
}

_IS_FOREIGN = """
    select p.txid > pg_snapshot_xmax(pg_current_snapshot()) from jobforge.statistics_position as p
"""


class FileState(StrEnum):
    """State of a file compared with the database's record."""

    APPLIED = "applied"
    DUE = "due"
    CHANGED = "changed"  # another version was applied; due again
    TAMPERED = "tampered"  # a migration that was edited after it ran
    UNKNOWN = "unknown"  # recorded, but not a file of this release


@dataclass(frozen=True, slots=True)
class FileStatus:
    name: str
    state: FileState
    applied_at: datetime | None

    @property
    def is_outdated(self) -> bool:
        return self.state is not FileState.APPLIED


def status(conn: Connection, root: Path = SQL) -> list[FileStatus]:
    """Return every file in order of application, then recorded files that do not exist."""
    return _compare_files(_read_records(conn), root)


def list_outdated(applied: Iterable[AppliedFile], root: Path = SQL) -> list[str]:
    """Return the files whose applied version differs from this release's."""
    return [each.name for each in _compare_files(_records(applied), root) if each.is_outdated]


def is_newer(applied: Iterable[AppliedFile], root: Path = SQL) -> bool:
    """Return whether a newer release than this one applied these files."""
    return _recorded_revision(_records(applied)) > read_revision(root)


def _records(applied: Iterable[AppliedFile]) -> "dict[str, _Record]":
    return {each.name: _Record(each.checksum, each.applied_at) for each in applied}


def _recorded_revision(recorded: "dict[str, _Record]") -> int:
    return int(recorded[REVISION].checksum) if REVISION in recorded else 0


def _compare_files(recorded: "dict[str, _Record]", root: Path) -> list[FileStatus]:
    recorded = {name: record for name, record in recorded.items() if name != REVISION}
    files = read_scripts(root)
    known = [_status_of(script, recorded.pop(script.name, None)) for script in files]
    gone = [
        FileStatus(name, FileState.UNKNOWN, record.applied_at)
        for name, record in sorted(recorded.items())
    ]
    return known + gone


def plan(conn: Connection, root: Path = SQL, *, repair: bool = False) -> list[Script]:
    """Return the files that `migrate` would apply. Raises MigrationError when it would refuse."""
    recorded = _read_records(conn)
    states = {file.name: file.state for file in _compare_files(recorded, root)}
    stale = {name for name, state in states.items() if _makes_due(name, state)}
    _refuse_tampered(states)
    _refuse_newer_database(states)
    if stale or repair:
        _refuse_newer_revision(_recorded_revision(recorded), read_revision(root))
    return [script for script in read_scripts(root) if _is_due(script, stale, repair=repair)]


def migrate(
    conn: Connection,
    *,
    lock_timeout: str = LOCK_TIMEOUT,
    root: Path = SQL,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Apply the files that are due in one transaction and return their names.

    Safe to run twice and concurrently. `on_progress` receives the number of applied files and the
    total. `lock_timeout` limits each wait for a table lock, so that a migration does not block the
    workers' statements, which queue behind its lock request.
    """
    with _transaction(conn, lock_timeout):
        due = plan(conn, root)
        _apply_all(conn, due, root, on_progress)
    return [script.name for script in due]


def repair(
    conn: Connection,
    *,
    lock_timeout: str = LOCK_TIMEOUT,
    root: Path = SQL,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Reapply roles, owners, functions, grants and policies, and apply migrations that are due.

    Runs in one transaction; safe to repeat. Returns the access faults found before the repair. A
    table is locked only if its owner, its row security or a policy is wrong.
    """
    with _transaction(conn, lock_timeout):
        # These two files make the record readable and restore the table owners that migrate.
        for script in read_scripts(root)[:2]:
            _apply(conn, script)
        faults = _recorded_faults(conn)
        _apply_all(conn, plan(conn, root, repair=True), root, on_progress)
        _adopt_history(conn)
    return faults


def create_roles(conn: Connection, root: Path = SQL) -> None:
    """Create the roles before a restore: a logical backup does not contain them."""
    with _transaction(conn, LOCK_TIMEOUT):
        _execute(conn, read_scripts(root)[0])


def drop_schema(conn: Connection) -> None:
    """Drop the schemas and their contents. Keep the roles: they belong to the whole server."""
    with _transaction(conn, LOCK_TIMEOUT), _translate_errors("drop"):
        conn.execute("drop schema if exists jobforge, jobforge_private cascade")


def count_jobs(conn: Connection) -> int:
    """Return the number of jobs of all tenants, in any state, that the login can see."""
    with _translate_errors("count"):
        cursor = conn.cursor(row_factory=tuple_row)
        cursor.execute("select to_regclass('jobforge.all_jobs') is not null")
        if cursor.fetchone() == (False,):
            return 0
        cursor.execute("select count(*) from jobforge.all_jobs")
        (count,) = cursor.fetchone() or (0,)
    return int(count)


def check(conn: Connection, root: Path = SQL) -> None:
    """Raise MigrationError if migrations are due or were edited, or if rights differ from the
    release."""
    due = plan(conn, root)
    if due:
        raise MigrationError(f"migrations are due: {_summary(due)}", hint=f"run: {MIGRATE}")
    faults = access_faults(conn)
    if faults:
        shown = "; ".join(faults[:_NAMED_AT_ONCE])
        more = f"; and {len(faults) - _NAMED_AT_ONCE} more" if len(faults) > _NAMED_AT_ONCE else ""
        raise MigrationError(
            f"rights differ from what this release says: {shown}{more}", hint=f"run: {REPAIR}"
        )


def access_faults(conn: Connection) -> list[str]:
    """Return where owners, grants, policies and row security differ from the release."""
    cursor = conn.cursor(row_factory=tuple_row)
    try:
        cursor.execute("select fault from jobforge.access_faults()")
    except (psycopg.errors.UndefinedFunction, psycopg.errors.InsufficientPrivilege) as error:
        raise MigrationError(
            f"the rights cannot be compared: {error.diag.message_primary}", hint=f"run: {REPAIR}"
        ) from error
    except psycopg.Error as error:
        raise _migration_error("jobforge.access_faults", "", error) from error
    return [fault for (fault,) in cursor]


def _summary(due: list[Script]) -> str:
    """List files, but only count functions: all are due when one has changed."""
    functions = sum(script.is_function for script in due)
    names = [script.name for script in due if not script.is_function]
    return ", ".join([*names, *([f"{functions} functions"] if functions else [])])


@dataclass(frozen=True, slots=True)
class _Record:
    checksum: str
    applied_at: datetime


def _read_records(conn: Connection) -> dict[str, _Record]:
    with _translate_errors("jobforge.migrations"), conn.transaction():
        cursor = conn.cursor(row_factory=tuple_row)
        cursor.execute("select to_regclass('jobforge.migrations') is not null")
        if cursor.fetchone() == (False,):
            return {}
        _refuse_restored(cursor)
        # Operators outside jobforge_owner have their own read access.
        cursor.execute("select pg_has_role(session_user, 'jobforge_owner', 'member')")
        if cursor.fetchone() == (True,):
            cursor.execute("set local role jobforge_owner")
        cursor.execute("select name, checksum, applied_at from jobforge.migrations")
        records = {name: _Record(checksum, applied_at) for name, checksum, applied_at in cursor}
        cursor.execute("reset role")
    return records


def _refuse_restored(cursor: psycopg.Cursor[tuple[Any, ...]]) -> None:
    """Raise if roles or rights are missing that reading the record depends on."""
    cursor.execute(
        """
        select to_regrole('jobforge_admin') is not null
               and c.relowner = to_regrole('jobforge_owner')
               and n.nspowner = to_regrole('jobforge_owner')
               and (not c.relrowsecurity or exists (
                       select from pg_catalog.pg_policy as p
                        where p.polrelid = c.oid
                          and p.polname = case pg_has_role(session_user, c.relowner, 'member')
                                          when true then 'engine_all' else 'admin_reads' end))
          from pg_catalog.pg_class as c
          join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
         where c.oid = to_regclass('jobforge.migrations')
        """
    )
    if cursor.fetchone() != (True,):
        raise MigrationError(
            "roles or rights of the schema are missing, as after a restore", hint=f"run: {REPAIR}"
        )


def _status_of(script: Script, record: _Record | None) -> FileStatus:
    if record is None:
        return FileStatus(script.name, FileState.DUE, None)
    if record.checksum == script.checksum:
        return FileStatus(script.name, FileState.APPLIED, record.applied_at)
    state = FileState.TAMPERED if script.is_migration else FileState.CHANGED
    return FileStatus(script.name, state, record.applied_at)


def _refuse_tampered(states: dict[str, FileState]) -> None:
    tampered = [name for name, state in states.items() if state is FileState.TAMPERED]
    if tampered:
        raise MigrationError(
            f"changed after it was applied: {', '.join(tampered)}",
            hint="restore the file of the release; a change to the tables is a new migration",
        )


def _refuse_newer_database(states: dict[str, FileState]) -> None:
    # Applying this release would install older functions over newer tables.
    unknown = [name for name, state in states.items() if state is FileState.UNKNOWN]
    newer = [name for name in unknown if name.startswith("migrations/")]
    if newer:
        raise MigrationError(
            f"the database is newer than this release: it has {', '.join(newer)}",
            hint="upgrade jobforge here",
        )


def _refuse_newer_revision(recorded: int, current: int) -> None:
    if recorded > current:
        raise MigrationError(
            "the database is newer than this release: "
            f"it has revision {recorded} of the schema, this release has {current}",
            hint="upgrade jobforge here",
        )


def _makes_due(name: str, state: FileState) -> bool:
    # A recorded function without a file must be dropped, together with applying the others.
    is_gone = state is FileState.UNKNOWN and name.startswith("functions/")
    return is_gone or state in (FileState.DUE, FileState.CHANGED)


def _is_due(script: Script, stale: set[str], *, repair: bool) -> bool:
    if script.is_migration:
        return script.name in stale
    if repair:
        return True
    if script.is_function:
        return any(name.startswith("functions/") for name in stale)
    return bool(stale)


@contextmanager
def _transaction(conn: Connection, lock_timeout: str) -> Iterator[None]:
    if conn.info.transaction_status is not TransactionStatus.IDLE:
        raise MigrationError("the connection is inside a transaction; migrate needs its own")
    with conn.transaction():
        with _translate_errors("migrate"):
            # Read committed: the plan must see what the migration that we waited for committed.
            conn.execute("set transaction isolation level read committed")
            conn.execute("set local statement_timeout = 0")
            _set_local(conn, "search_path", SEARCH_PATH)
            _set_local(conn, "lock_timeout", _WAIT_FOR_OTHERS)
            conn.execute(SERIALIZE_MIGRATIONS)
            _set_local(conn, "lock_timeout", lock_timeout)
        yield


def _set_local(conn: Connection, name: str, value: str) -> None:
    conn.execute("select set_config(%s, %s, true)", [name, value])


def _apply_all(
    conn: Connection, due: list[Script], root: Path, on_progress: Callable[[int, int], None] | None
) -> None:
    """Apply the files in order. Drop functions without a file before access.sql grants access."""
    has_functions = False
    for number, script in enumerate(due, 1):
        if script.is_function and not has_functions:
            conn.execute(REMEMBER_FUNCTIONS)
            has_functions = True
        elif script.name == "access.sql" and has_functions:
            _drop_stale_functions(conn)
        _apply(conn, script)
        if on_progress is not None:
            on_progress(number, len(due))
    if due:
        _complete_record(conn, root)


def _adopt_history(conn: Connection) -> None:
    """Roll up statistics restored from a cluster with more transactions (roll_up_statistics)."""
    with _translate_errors("jobforge.roll_up_statistics"):
        _set_local(conn, "role", "jobforge_owner")
        cursor = conn.cursor(row_factory=tuple_row)
        while cursor.execute(_IS_FOREIGN).fetchone() == (True,):
            cursor.execute("select jobforge.roll_up_statistics()")
        conn.execute("reset role")


def _apply(conn: Connection, script: Script) -> None:
    _execute(conn, script)
    if script.name != ROLES:  # schema.sql, which comes later, creates the record
        with _translate_errors("jobforge.migrations"):
            _record(conn, script.name, script.checksum)


def _execute(conn: Connection, script: Script) -> None:
    with _translate_errors(script.name, script.text):
        if script.role:
            _set_local(conn, "role", script.role)
        # Functions call each other, and Postgres would reject a call to one not created yet.
        _set_local(conn, "check_function_bodies", "off" if script.is_function else "on")
        conn.execute(script.text.encode())
        conn.execute("reset role")


def _record(conn: Connection, name: str, checksum: str) -> None:
    _set_local(conn, "role", "jobforge_owner")
    conn.execute(
        """
        insert into jobforge.migrations (name, checksum) values (%s, %s)
        on conflict (name) do update
        set checksum = excluded.checksum, applied_at = clock_timestamp()
        """,
        [name, checksum],
    )
    conn.execute("reset role")


def _drop_stale_functions(conn: Connection) -> None:
    with _translate_errors("functions"):
        conn.execute(DROP_STALE_FUNCTIONS)


def _complete_record(conn: Connection, root: Path) -> None:
    """Record roles and revision; delete records of functions without a file."""
    files = read_scripts(root)
    functions = [script.name for script in files if script.is_function]
    with _translate_errors("jobforge.migrations"):
        _record(conn, ROLES, files[0].checksum)
        _record(conn, REVISION, str(read_revision(root)))
        _set_local(conn, "role", "jobforge_owner")
        conn.execute(
            "delete from jobforge.migrations where name like 'functions/%%' and name <> all(%s)",
            [functions],
        )
        conn.execute("reset role")


def _recorded_faults(conn: Connection) -> list[str]:
    """Return access faults as the installed release reports them; empty if it cannot."""
    try:
        with conn.transaction():
            cursor = conn.cursor(row_factory=tuple_row)
            cursor.execute("select fault from jobforge.access_faults()")
            return [fault for (fault,) in cursor]
    except (psycopg.errors.UndefinedFunction, psycopg.errors.InsufficientPrivilege):
        return []


@contextmanager
def _translate_errors(name: str, text: str = "") -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise _migration_error(name, text, error) from error


def _migration_error(name: str, text: str, error: psycopg.Error) -> JobForgeError:
    diagnosis = error.diag
    if diagnosis.sqlstate is None:
        return Unavailable(str(error).strip())
    position = int(diagnosis.statement_position or 0)
    line = f", line {text.count(chr(10), 0, position) + 1}" if text and position else ""
    hint = diagnosis.message_hint or _HINTS.get(diagnosis.sqlstate)
    return MigrationError(f"{name}{line}: {diagnosis.message_primary}", hint=hint)
