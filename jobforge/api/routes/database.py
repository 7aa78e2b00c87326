"""The database under this installation: what the doctor finds, and the figures behind it."""

from dataclasses import asdict
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

from jobforge import __version__, calls
from jobforge.api.caller import Caller
from jobforge.api.guard import area
from jobforge.api.responses import Answer
from jobforge.db.doctor import collect, probes
from jobforge.db.doctor.checks import Facts, Finding, diagnose, release
from jobforge.db.doctor.probes import Connections, History, Horizon, LockWait, Table
from jobforge.types.health import Gauge
from jobforge.types.triggers import FiringKind

router = area("database")

_TENANTS = 50  # that are told apart


class Schema(BaseModel):
    release: str = Field(description="Of this server.")
    migration: str | None = Field(description="The last one that was applied.")
    outdated: list[str] | None = Field(
        description="Files that are not as this release has them; null: it cannot be seen."
    )


class Upkeep(BaseModel):
    task: str
    age_s: float = Field(description="Since a scheduler last began it.")
    by: str = Field(description="That scheduler: its host and process.")
    held_s: float = Field(description="For how long no other has begun it.")


class SchedulerState(BaseModel):
    """How far behind those are who fire schedules and dispatch events."""

    schedule_lag_s: float
    pending_events: int
    event_lag_s: float
    faulty_triggers: int
    upkeep: list[Upkeep] = Field(
        description="Statistics are added up twice a minute, as long as any scheduler runs."
    )


class Standstill(BaseModel):
    """Something that does not go on by itself."""

    kind: Literal["unserved", "overdue", "faulty", "webhook", "event", "operation", "blocked"]
    subject: str
    tenant_id: UUID | None
    since: datetime
    detail: str


class MissedFiring(BaseModel):
    """A time of a schedule that made no job."""

    tenant_id: UUID
    trigger_id: UUID
    label: str
    fire_at: datetime
    at: datetime
    kind: FiringKind
    outcome: Literal["skipped", "failed"]
    reason: str


class Waiting(BaseModel):
    """Queued jobs of a tenant, of those with most of them."""

    tenant_id: UUID | None = Field(description="Null: all others together.")
    queued: int


class Holder(BaseModel):
    """Something that keeps dead rows from being removed, and what ends it."""

    kind: str
    name: str
    login: str | None
    program: str | None
    state: str | None
    age: int = Field(description="In transactions.")
    seconds: float | None
    fix: str


class DatabaseState(BaseModel):
    version: str
    login: str
    findings: list[Finding]
    schema_: Schema = Field(alias="schema")
    connections: Connections
    tables: list[Table]
    history: list[History]
    horizon: list[Holder]
    lock_waits: list[LockWait] = Field(description="The 20 longest.")
    scheduler: SchedulerState
    troubles: list[Standstill]
    misses: list[MissedFiring] = Field(description="The latest 50 of all tenants.")
    waiting: list[Waiting]


@router.get("/database", response_model=DatabaseState, summary="How the database is")
async def show_database(caller: Caller) -> Answer:
    """What `jobforge doctor` finds, as far as the server's own login sees it."""
    database = caller.server.database
    facts = await collect.agather(database)
    waits = await database.run(probes.lock_waits())
    files = await database.run(calls.list_migrations())
    gauges = await database.run(calls.read_gauges(_TENANTS))
    misses = await database.run(calls.list_missed_firings())
    migrations = [each.name for each in files if each.name.startswith("migrations/")]
    return Answer(
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
            "scheduler": _scheduler(gauges),
            "troubles": [each._asdict() for each in facts.troubles or ()],
            "misses": [each._asdict() for each in misses],
            "waiting": [_waiting(each) for each in gauges if each.gauge == "tenant_queued"],
        }
    )


def _figures(facts: Facts) -> dict[str, object]:
    return {
        "connections": asdict(facts.connections),
        "tables": [asdict(each) for each in facts.tables],
        "history": [asdict(each) for each in facts.history],
        "horizon": [_holder(each) for each in facts.horizon],
    }


def _holder(horizon: Horizon) -> dict[str, object]:
    return {**asdict(horizon), "fix": release(horizon)}


def _scheduler(gauges: list[Gauge]) -> dict[str, object]:
    values = {each.gauge: each.value for each in gauges}
    return {
        "schedule_lag_s": values["schedule_lag"],
        "pending_events": int(values["pending_events"]),
        "event_lag_s": values["event_lag"],
        "faulty_triggers": int(values["faulty_triggers"]),
        "upkeep": _upkeep(gauges),
    }


def _upkeep(gauges: list[Gauge]) -> list[dict[str, object]]:
    held = {each.subject: each for each in gauges if each.gauge == "upkeep_held"}
    return [
        {
            "task": each.subject,
            "age_s": each.value,
            "by": held[each.subject].state,
            "held_s": held[each.subject].value,
        }
        for each in gauges
        if each.gauge == "upkeep_age"
    ]


def _waiting(gauge: Gauge) -> dict[str, object]:
    return {
        "tenant_id": None if gauge.subject == "other" else gauge.subject,
        "queued": int(gauge.value),
    }
