"""A look at everything about an installation that checks.py judges, with whatever login there is.

The looks are one list for the command line and for the server; each has its own way to run them.
"""

import time
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from jobforge import calls, db
from jobforge.calls import Call
from jobforge.db import migrate
from jobforge.db.connection import Connection
from jobforge.db.doctor import probes
from jobforge.db.doctor.checks import Facts
from jobforge.db.doctor.server_facts import inspect
from jobforge.errors import Denied, JobForgeError
from jobforge.types.diagnostics import AppliedFile

T = TypeVar("T")

_UNDEFINED_FUNCTION = "42883"

FactQueries = Generator[Call[Any], Any, Facts]


def gather(conn: Connection) -> Facts:
    """The facts, as this connection's login sees them."""
    looks = _query_facts(conn.info.backend_pid)
    try:
        call = next(looks)
        while True:
            try:
                answer = db.run(conn, call)
            except JobForgeError as error:
                call = looks.throw(error)
            else:
                call = looks.send(answer)
    except StopIteration as end:
        facts: Facts = end.value
        return facts


async def agather(database: db.Database) -> Facts:
    """The facts, as a server's own login sees them; a pooler in between is not looked for."""
    looks = _query_facts(0)
    try:
        call = next(looks)
        while True:
            try:
                answer = await database.run(call)
            except JobForgeError as error:
                call = looks.throw(error)
            else:
                call = looks.send(answer)
    except StopIteration as end:
        facts: Facts = end.value
        return replace(facts, inspection=replace(facts.inspection, is_behind_pooler=False))


def _query_facts(announced_pid: int) -> FactQueries:
    seen = yield inspect(announced_pid)
    began = time.perf_counter()
    now = yield probes.clock()
    took = time.perf_counter() - began
    skew = (datetime.now(UTC) - now).total_seconds() - took / 2
    if not seen.has_schema:
        return Facts(seen, took, skew, [], is_notify_received=None)
    files, workers, troubles, unreadable, access_faults = None, None, None, None, None
    try:
        workers = yield calls.list_workers()
        files = yield calls.list_migrations()
        troubles = yield calls.find_problems()
        unreadable = yield calls.find_unreadable()
    except Denied:
        pass  # they are for operators
    except JobForgeError as error:
        if error.detail.get("sqlstate") != _UNDEFINED_FUNCTION:
            raise
        files = []  # of a release before these functions
    try:
        access_faults = yield probes.access_faults()
    except Denied:
        access_faults = ["this login may not compare the rights of the schema"]
    except JobForgeError as error:
        if error.detail.get("sqlstate") != _UNDEFINED_FUNCTION:
            raise
    return Facts(
        seen,
        took,
        skew,
        _outdated_files(files),
        is_notify_received=None,
        is_newer=files is not None and migrate.is_newer(files),
        access_faults=access_faults,
        server_conditions=(yield probes.server_conditions()),
        connections=(yield probes.connections()),
        vacuum_blockers=(yield probes.vacuum_blockers()),
        tables=(yield probes.tables()),
        partition_coverage=(yield probes.partition_coverage()),
        workers=workers,
        troubles=troubles,
        unreadable=unreadable,
        stores=(yield from _query_if_allowed(calls.list_artifact_stores())),
        bound_logins=(yield from _query_if_allowed(calls.list_bound_logins())),
    )


def _query_if_allowed(call: Call[T]) -> Generator[Call[Any], Any, T | None]:
    """None where this login may not see them, and in a release without the function."""
    try:
        found: T = yield call
    except Denied:
        return None
    except JobForgeError as error:
        if error.detail.get("sqlstate") != _UNDEFINED_FUNCTION:
            raise
        return None
    return found


def _outdated_files(files: list[AppliedFile] | None) -> list[str] | None:
    return None if files is None else migrate.list_outdated(files)
