"""Compares the files under sql/ with the record of applied files, and decides which are due.

The record is the table `jobforge.migrations`: one row per file with its checksum. migrate.py
applies the files and writes the record.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from jobforge.db.connection import Connection
from jobforge.db.migration_errors import REPAIR, translate_errors
from jobforge.db.schema_files import REVISION, SQL, Script, read_revision, read_scripts
from jobforge.errors import MigrationError
from jobforge.types.diagnostics import AppliedFile


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
    return [each.name for each in _compare_files(_by_name(applied), root) if each.is_outdated]


def is_newer(applied: Iterable[AppliedFile], root: Path = SQL) -> bool:
    """Return whether a newer release than this one applied these files."""
    return _recorded_revision(_by_name(applied)) > read_revision(root)


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


def _by_name(applied: Iterable[AppliedFile]) -> dict[str, AppliedFile]:
    return {each.name: each for each in applied}


def _recorded_revision(recorded: dict[str, AppliedFile]) -> int:
    return int(recorded[REVISION].checksum) if REVISION in recorded else 0


def _compare_files(recorded: dict[str, AppliedFile], root: Path) -> list[FileStatus]:
    recorded = {name: record for name, record in recorded.items() if name != REVISION}
    files = read_scripts(root)
    known = [_status_of(script, recorded.pop(script.name, None)) for script in files]
    gone = [
        FileStatus(name, FileState.UNKNOWN, record.applied_at)
        for name, record in sorted(recorded.items())
    ]
    return known + gone


def _read_records(conn: Connection) -> dict[str, AppliedFile]:
    with translate_errors("jobforge.migrations"), conn.transaction():
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
        records = _by_name(map(AppliedFile._make, cursor))
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
            "Roles or rights of the schema are missing, for example after a restore", hint=REPAIR
        )


def _status_of(script: Script, record: AppliedFile | None) -> FileStatus:
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
            f"Migration files changed after they were applied: {', '.join(tampered)}",
            hint="Restore the files of the release; change tables with a new migration",
        )


def _refuse_newer_database(states: dict[str, FileState]) -> None:
    # Applying this release would install older functions over newer tables.
    unknown = [name for name, state in states.items() if state is FileState.UNKNOWN]
    newer = [name for name in unknown if name.startswith("migrations/")]
    if newer:
        raise MigrationError(
            f"The database is newer than this release: it has {', '.join(newer)}",
            hint="Upgrade JobForge",
        )


def _refuse_newer_revision(recorded: int, current: int) -> None:
    if recorded > current:
        raise MigrationError(
            "The database is newer than this release: "
            f"it has revision {recorded} of the schema, this release has {current}",
            hint="Upgrade JobForge",
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
