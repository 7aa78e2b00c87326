"""Route of the database status: the findings of `jobforge doctor` and the figures behind them."""

from dataclasses import asdict
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

from jobforge import __version__, calls
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.responses import JsonResponse
from jobforge.db.doctor import collect, probes
from jobforge.db.doctor.checks import diagnose
from jobforge.db.doctor.findings import Facts, Finding
from jobforge.db.doctor.probes import (
    ConnectionUsage,
    LockWait,
    PartitionCoverage,
    TableStats,
    VacuumBlocker,
)
from jobforge.db.doctor.vacuum_checks import suggest_release
from jobforge.types.diagnostics import Gauge
from jobforge.types.triggers import FiringKind

router = create_router("database")

_MAX_TENANTS = 50  # listed separately; all others are summed


class SchemaStatus(BaseModel):
    release: str = Field(description="Release of this server.")
    migration: str | None = Field(description="Last applied migration.")
    outdated: list[str] | None = Field(
        description="Files that differ from this release (null: the login cannot see them)."
    )


class SchedulerTask(BaseModel):
    task: str
    age_s: float = Field(description="Time since a scheduler last started the task.")
    by: str = Field(description="Host and process of that scheduler.")
    held_s: float = Field(description="Time since another scheduler last started the task.")


class SchedulerState(BaseModel):
    """Lag of the schedules and of event dispatching."""

    schedule_lag_s: float
    pending_events: int
    event_lag_s: float
    faulty_triggers: int
    maintenance: list[SchedulerTask] = Field(
        description="Statistics are aggregated twice a minute while any scheduler runs."
    )


class StuckItem(BaseModel):
    """Something that cannot make progress without an operator."""

    kind: Literal["unserved", "overdue", "faulty", "webhook", "event", "operation", "blocked"]
    subject: str
    tenant_id: UUID | None
    since: datetime
    detail: str


class MissedFiring(BaseModel):
    """A scheduled run that was missed: it created no job."""

    tenant_id: UUID
    trigger_id: UUID
    label: str
    fire_at: datetime
    at: datetime
    kind: FiringKind
    outcome: Literal["skipped", "failed"]
    reason: str


class TenantBacklog(BaseModel):
    """Queued jobs of one of the tenants with the largest backlogs."""

    tenant_id: UUID | None = Field(description="ID of the tenant (null: all other tenants).")
    queued: int


class HorizonHolder(BaseModel):
    """Something that prevents vacuum from removing dead rows, and how to end it."""

    kind: str
    name: str
    login: str | None
    program: str | None
    state: str | None
    age: int = Field(description="Age in transactions.")
    seconds: float | None
    fix: str


class DatabaseState(BaseModel):
    version: str
    login: str
    findings: list[Finding]
    schema_: SchemaStatus = Field(alias="schema")
    connections: ConnectionUsage
    tables: list[TableStats]
    history: list[PartitionCoverage]
    horizon: list[HorizonHolder]
    lock_waits: list[LockWait] = Field(description="The 20 longest lock waits.")
    scheduler: SchedulerState
    problems: list[StuckItem]
    missed_firings: list[MissedFiring] = Field(
        description="The latest 50 missed runs of all tenants."
    )
    waiting: list[TenantBacklog]


@router.get("/database", response_model=DatabaseState, summary="Get the database status")
async def show_database(caller: Caller) -> JsonResponse:
    """Returns the findings of `jobforge doctor`, as far as the privileges of the server's login
    allow.
    """
    database = caller.server.database
    facts = await collect.agather(database)
    waits = await database.run(probes.lock_waits())
    files = await database.run(calls.list_migrations())
    gauges = await database.run(calls.read_gauges(_MAX_TENANTS))
    missed = await database.run(calls.list_missed_firings())
    migrations = [each.name for each in files if each.name.startswith("migrations/")]
    return JsonResponse(
        {
            "version": f"{facts.inspection.version // 10000}.{facts.inspection.version % 10000}",
            "login": facts.inspection.user,
            "findings": [asdict(each) for each in diagnose(facts)],
            "schema": {
                "release": __version__,
                "migration": max(migrations, default=None),
                "outdated": facts.schema_faults,
            },
            **_figures(facts),
            "lock_waits": [asdict(each) for each in waits],
            "scheduler": _format_scheduler(gauges),
            "problems": [each._asdict() for each in facts.problems or ()],
            "missed_firings": [each._asdict() for each in missed],
            "waiting": [_format_backlog(each) for each in gauges if each.gauge == "tenant_queued"],
        }
    )


def _figures(facts: Facts) -> dict[str, object]:
    return {
        "connections": asdict(facts.connections),
        "tables": [asdict(each) for each in facts.tables],
        "history": [asdict(each) for each in facts.partition_coverage],
        "horizon": [_format_holder(each) for each in facts.vacuum_blockers],
    }


def _format_holder(horizon: VacuumBlocker) -> dict[str, object]:
    return {**asdict(horizon), "fix": suggest_release(horizon)}


def _format_scheduler(gauges: list[Gauge]) -> dict[str, object]:
    values = {each.gauge: each.value for each in gauges}
    return {
        "schedule_lag_s": values["schedule_lag"],
        "pending_events": int(values["pending_events"]),
        "event_lag_s": values["event_lag"],
        "faulty_triggers": int(values["faulty_triggers"]),
        "maintenance": _format_scheduler_tasks(gauges),
    }


def _format_scheduler_tasks(gauges: list[Gauge]) -> list[dict[str, object]]:
    held = {each.subject: each for each in gauges if each.gauge == "maintenance_held"}
    return [
        {
            "task": each.subject,
            "age_s": each.value,
            "by": held[each.subject].state,
            "held_s": held[each.subject].value,
        }
        for each in gauges
        if each.gauge == "maintenance_age"
    ]


def _format_backlog(gauge: Gauge) -> dict[str, object]:
    return {
        "tenant_id": None if gauge.subject == "other" else gauge.subject,
        "queued": int(gauge.value),
    }
