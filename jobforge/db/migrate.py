"""Brings a database's schema up to date with the files under sql/, in one transaction.

migration_plan.py decides which files are due; schema_files.py reads them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from jobforge.db.connection import Connection
from jobforge.db.migration_errors import MIGRATE, REPAIR, migration_error, translate_errors
from jobforge.db.migration_plan import plan
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
from jobforge.errors import MigrationError

LOCK_TIMEOUT = "5s"

# How long a migration waits for another migration to finish; longer than a wait for a table.
_WAIT_FOR_OTHERS = "10min"
_NAMED_AT_ONCE = 3
_IS_FOREIGN = """
    select p.txid > pg_snapshot_xmax(pg_current_snapshot()) from jobforge.statistics_position as p
"""


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
    with _transaction(conn, LOCK_TIMEOUT), translate_errors("drop"):
        conn.execute("drop schema if exists jobforge, jobforge_private cascade")


def count_jobs(conn: Connection) -> int:
    """Return the number of jobs of all tenants, in any state, that the login can see."""
    with translate_errors("count"):
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
        raise MigrationError(f"Migrations are due: {_summary(due)}", hint=MIGRATE)
    faults = access_faults(conn)
    if faults:
        shown = "; ".join(faults[:_NAMED_AT_ONCE])
        more = f"; and {len(faults) - _NAMED_AT_ONCE} more" if len(faults) > _NAMED_AT_ONCE else ""
        raise MigrationError(f"Rights differ from this release: {shown}{more}", hint=REPAIR)


def access_faults(conn: Connection) -> list[str]:
    """Return where owners, grants, policies and row security differ from the release."""
    cursor = conn.cursor(row_factory=tuple_row)
    try:
        cursor.execute("select fault from jobforge.access_faults()")
    except (psycopg.errors.UndefinedFunction, psycopg.errors.InsufficientPrivilege) as error:
        raise MigrationError(
            f"Rights cannot be compared: {error.diag.message_primary}", hint=REPAIR
        ) from error
    except psycopg.Error as error:
        raise migration_error("jobforge.access_faults", "", error) from error
    return [fault for (fault,) in cursor]


def _summary(due: list[Script]) -> str:
    """List files, but only count functions: all are due when one has changed."""
    functions = sum(script.is_function for script in due)
    names = [script.name for script in due if not script.is_function]
    return ", ".join([*names, *([f"{functions} functions"] if functions else [])])


@contextmanager
def _transaction(conn: Connection, lock_timeout: str) -> Iterator[None]:
    if conn.info.transaction_status is not TransactionStatus.IDLE:
        raise MigrationError("The connection must not be in a transaction")
    with conn.transaction():
        with translate_errors("migrate"):
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
    with translate_errors("jobforge.roll_up_statistics"):
        _set_local(conn, "role", "jobforge_owner")
        cursor = conn.cursor(row_factory=tuple_row)
        while cursor.execute(_IS_FOREIGN).fetchone() == (True,):
            cursor.execute("select jobforge.roll_up_statistics()")
        conn.execute("reset role")


def _apply(conn: Connection, script: Script) -> None:
    _execute(conn, script)
    if script.name != ROLES:  # schema.sql, which comes later, creates the record
        with translate_errors("jobforge.migrations"):
            _record(conn, script.name, script.checksum)


def _execute(conn: Connection, script: Script) -> None:
    with translate_errors(script.name, script.text):
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
    with translate_errors("functions"):
        conn.execute(DROP_STALE_FUNCTIONS)


def _complete_record(conn: Connection, root: Path) -> None:
    """Record roles and revision; delete records of functions without a file."""
    files = read_scripts(root)
    functions = [script.name for script in files if script.is_function]
    with translate_errors("jobforge.migrations"):
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
