"""Collects the facts that checks.py evaluates, with the rights of any login."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol, TypeVar

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


class RunCall(Protocol):
    async def __call__(self, call: Call[T]) -> T: ...


def gather(conn: Connection) -> Facts:
    """Collect the facts that this connection's login can see."""

    async def run(call: Call[T]) -> T:
        return db.run(conn, call)

    try:
        # Not asyncio.run, which postpones Ctrl-C: this coroutine blocks and never suspends.
        _collect(run, conn.info.backend_pid).send(None)
    except StopIteration as end:
        facts: Facts = end.value
        return facts
    raise AssertionError("run must not suspend")


async def agather(database: db.Database) -> Facts:
    """Collect the facts that the server's login can see; does not detect a pooler."""
    facts = await _collect(database.run, 0)
    return replace(facts, inspection=replace(facts.inspection, is_behind_pooler=False))


async def _collect(run: RunCall, announced_pid: int) -> Facts:
    inspection = await run(inspect(announced_pid))
    started = time.perf_counter()
    now = await run(probes.clock())
    took = time.perf_counter() - started
    skew = (datetime.now(UTC) - now).total_seconds() - took / 2
    if not inspection.has_schema:
        return Facts(inspection, took, skew, [], is_notify_received=None)
    files, workers, problems, unreadable, access_faults = None, None, None, None, None
    try:
        workers = await run(calls.list_workers())
        files = await run(calls.list_migrations())
        problems = await run(calls.find_problems())
        unreadable = await run(calls.find_unreadable())
    except Denied:
        pass  # only operators may call these functions
    except JobForgeError as error:
        if error.detail.get("sqlstate") != _UNDEFINED_FUNCTION:
            raise
        files = []  # the installed release lacks these functions
    try:
        access_faults = await run(probes.access_faults())
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
        server_conditions=await run(probes.server_conditions()),
        connections=await run(probes.connections()),
        vacuum_blockers=await run(probes.vacuum_blockers()),
        tables=await run(probes.tables()),
        partition_coverage=await run(probes.partition_coverage()),
        workers=workers,
        problems=problems,
        unreadable=unreadable,
        stores=await _run_if_allowed(run, calls.list_artifact_stores()),
        bound_logins=await _run_if_allowed(run, calls.list_bound_logins()),
    )


async def _run_if_allowed(run: RunCall, call: Call[T]) -> T | None:
    """Return None if the login may not call the function or the release lacks it."""
    try:
        return await run(call)
    except Denied:
        return None
    except JobForgeError as error:
        if error.detail.get("sqlstate") != _UNDEFINED_FUNCTION:
            raise
        return None


def _outdated_files(files: list[AppliedFile] | None) -> list[str] | None:
    return None if files is None else migration_plan.list_outdated(files)
