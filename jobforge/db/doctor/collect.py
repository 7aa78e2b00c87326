"""Collects the facts that checks.py evaluates, with the rights of any login.

One generator yields the queries; the command line runs them synchronously, the server
asynchronously.
"""

import time
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from jobforge import calls, db
from jobforge.calls import Call
from jobforge.db import migration_plan
from jobforge.db.connection import Connection
from jobforge.db.doctor import probes
from jobforge.db.doctor.findings import Facts
from jobforge.db.doctor.server_facts import inspect
from jobforge.errors import Denied, JobForgeError
from jobforge.types.diagnostics import AppliedFile

T = TypeVar("T")

_UNDEFINED_FUNCTION = "42883"

FactQueries = Generator[Call[Any], Any, Facts]


def gather(conn: Connection) -> Facts:
    """Collect the facts that this connection's login can see."""
    queries = _query_facts(conn.info.backend_pid)
    try:
        call = next(queries)
        while True:
            try:
                result = db.run(conn, call)
            except JobForgeError as error:
                call = queries.throw(error)
            else:
                call = queries.send(result)
    except StopIteration as end:
        facts: Facts = end.value
        return facts


async def agather(database: db.Database) -> Facts:
    """Collect the facts that the server's login can see; does not detect a pooler."""
    queries = _query_facts(0)
    try:
        call = next(queries)
        while True:
            try:
                result = await database.run(call)
            except JobForgeError as error:
                call = queries.throw(error)
            else:
                call = queries.send(result)
    except StopIteration as end:
        facts: Facts = end.value
        return replace(facts, inspection=replace(facts.inspection, is_behind_pooler=False))


def _query_facts(announced_pid: int) -> FactQueries:
    inspection = yield inspect(announced_pid)
    started = time.perf_counter()
    now = yield probes.clock()
    took = time.perf_counter() - started
    skew = (datetime.now(UTC) - now).total_seconds() - took / 2
    if not inspection.has_schema:
        return Facts(inspection, took, skew, [], is_notify_received=None)
    files, workers, problems, unreadable, access_faults = None, None, None, None, None
    try:
        workers = yield calls.list_workers()
        files = yield calls.list_migrations()
        problems = yield calls.find_problems()
        unreadable = yield calls.find_unreadable()
    except Denied:
        pass  # only operators may call these functions
    except JobForgeError as error:
        if error.detail.get("sqlstate") != _UNDEFINED_FUNCTION:
            raise
        files = []  # the installed release lacks these functions
    try:
        access_faults = yield probes.access_faults()
    except Denied:
        access_faults = ["This login is not allowed to compare the schema's rights"]
    except JobForgeError as error:
        if error.detail.get("sqlstate") != _UNDEFINED_FUNCTION:
            raise
    return Facts(
        inspection,
        took,
        skew,
        _outdated_files(files),
        is_notify_received=None,
        is_newer=files is not None and migration_plan.is_newer(files),
        access_faults=access_faults,
        server_conditions=(yield probes.server_conditions()),
        connections=(yield probes.connections()),
        vacuum_blockers=(yield probes.vacuum_blockers()),
        tables=(yield probes.tables()),
        partition_coverage=(yield probes.partition_coverage()),
        workers=workers,
        problems=problems,
        unreadable=unreadable,
        stores=(yield from _query_if_allowed(calls.list_artifact_stores())),
        bound_logins=(yield from _query_if_allowed(calls.list_bound_logins())),
    )


def _query_if_allowed(call: Call[T]) -> Generator[Call[Any], Any, T | None]:
    """Return None if the login may not call the function or the release lacks it."""
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
    return None if files is None else migration_plan.list_outdated(files)
