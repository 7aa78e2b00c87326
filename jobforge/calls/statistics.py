"""Calls on statistics of finished attempts, and on the maintenance schedule."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.rows import Rows
from jobforge.types.jsonb import encode
from jobforge.types.statistics import Statistic, Usage

MaintenanceTask = Literal["statistics", "partitions", "retention", "blocked_jobs"]


def get_statistics(
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    step_s: int = 60,
    definition: str | None = None,
    queue: str | None = None,
    by: Literal["definition", "queue"] | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[Statistic]]:
    """List statistics by time step, earliest first; default: the last hour."""
    given = {"definition": definition, "queue": queue}
    which: Mapping[str, str] = {name: value for name, value in given.items() if value is not None}
    return Call(
        """
        select at, definition, queue, attempts, succeeded, failed, dead, canceled, released,
               wait_ms, run_ms, cpu_ms, peak_memory_bytes, wait_p50_ms, wait_p95_ms, run_p50_ms,
               run_p95_ms
          from jobforge.get_statistics(%s, %s, %s::integer, %s::jsonb, %s, %s)
        """,
        (since, until, step_s, encode(dict(which), "filter"), by, tenant_id),
        _statistics,
    )


def meter_tenants(
    since: datetime | None = None, until: datetime | None = None
) -> Call[list[Usage]]:
    """Return each tenant's usage, for operators; default: the last day."""
    return Call(
        """
        select tenant_id, slug, attempts, run_s, cpu_s, peak_memory_bytes
          from jobforge.meter_tenants(%s, %s)
        """,
        (since, until),
        _usages,
    )


def roll_up_statistics(*, limit: int = 50_000) -> Call[int]:
    """Return the number of attempts added; 0 while another caller rolls up."""
    return Call("select jobforge.roll_up_statistics(%s::integer)", (limit,), rows.value)


def start_maintenance(
    task: MaintenanceTask, *, every_s: float, by: str | None = None
) -> Call[bool]:
    """Return whether the caller should run the task: no process has within `every_s`."""
    return Call("select jobforge.start_maintenance(%s, %s, %s)", (task, every_s, by), rows.value)


def _statistics(rows: Rows) -> list[Statistic]:
    return [Statistic(*row) for row in rows]


def _usages(rows: Rows) -> list[Usage]:
    return [Usage(*row) for row in rows]
