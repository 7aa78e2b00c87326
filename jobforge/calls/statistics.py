"""Calls on statistics of finished attempts, and on the maintenance schedule."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal
from uuid import UUID

from jobforge.calls.call import Call, build_call
from jobforge.calls.results import many, value
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
    return build_call(
        "get_statistics",
        many(Statistic),
        since=since,
        until=until,
        step_s=step_s,
        filter=which,
        by=by,
        tenant_id=tenant_id,
    )


def meter_tenants(
    since: datetime | None = None, until: datetime | None = None
) -> Call[list[Usage]]:
    """Return each tenant's usage, for operators; default: the last day."""
    return build_call("meter_tenants", many(Usage), since=since, until=until)


def roll_up_statistics(*, limit: int = 50_000) -> Call[int]:
    """Return the number of attempts added; 0 while another caller rolls up."""
    return build_call("roll_up_statistics", value(int), limit=limit)


def start_maintenance(
    task: MaintenanceTask, *, every_s: float, by: str | None = None
) -> Call[bool]:
    """Return whether the caller should run the task: no process has within `every_s`."""
    return build_call("start_maintenance", value(bool), task=task, every_s=every_s, by=by)
