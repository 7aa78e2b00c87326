"""Triggers as data: schedules and event triggers, firings, and the scheduler's plans."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jsonb import JsonFields


class TriggerType(StrEnum):
    SCHEDULE = "schedule"
    EVENT = "event"


class CatchUp(StrEnum):
    """What to do about firings missed while no scheduler was running."""

    NONE = "none"
    LAST = "last"
    ALL = "all"  # the latest ones, up to a limit


class Overlap(StrEnum):
    """What to do about a firing while the previous firing's job is unfinished."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"  # at most one job waits
    CANCEL_RUNNING = "cancel_running"


class FiringKind(StrEnum):
    SCHEDULE = "schedule"
    MANUAL = "manual"
    BACKFILL = "backfill"


class FiringOutcome(StrEnum):
    PENDING = "pending"  # requested manually, not yet enqueued
    ENQUEUED = "enqueued"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Trigger:
    """A schedule or an event trigger. `zone` is the effective time zone of a schedule."""

    id: UUID
    type: TriggerType
    label: str
    definition: str
    version: int | None
    queue: str | None
    priority: int
    payload: dict[str, Json]
    enabled: bool
    fault: str | None
    declared: str | None
    cron: str | None
    timezone: str
    zone: str
    catch_up: CatchUp
    catch_up_limit: int
    overlap: Overlap
    jitter_s: int
    starts_at: datetime | None
    ends_at: datetime | None
    event: str | None
    filter: list[Json]
    dedupe_window_s: int
    dedupe_key: str | None
    deduplicated: int  # deduplicated events; the count stops at 10,000
    last_fired_at: datetime | None
    next_run_at: datetime | None
    created_at: datetime
    updated_at: datetime
    created_by: str


@dataclass(frozen=True, slots=True)
class TriggerFilter(JsonFields):
    """Filter of triggers; a trigger must match all fields that are set."""

    type: TriggerType | None = None
    definition: str | None = None
    event: str | None = None
    enabled: bool | None = None

    def to_json(self) -> dict[str, Json]:
        given = JsonFields.to_json(self)
        if self.enabled is not None:
            given["enabled"] = "true" if self.enabled else "false"
        return given


@dataclass(frozen=True, slots=True)
class Firing:
    """One scheduled time, with the job that it enqueued or the reason for none."""

    fire_at: datetime
    at: datetime
    kind: FiringKind
    outcome: FiringOutcome
    reason: str | None
    job_id: UUID | None
    created_by: str | None


class RequestedFiring(NamedTuple):
    """A firing that a user requested."""

    fire_at: datetime
    kind: FiringKind


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule for the scheduler; the database computes `is_due`."""

    tenant_id: str
    id: str
    label: str
    due_at: str | None
    updated_at: str
    since: datetime
    next_run_at: datetime | None
    last_fired_at: datetime | None
    starts_at: datetime | None
    ends_at: datetime | None
    is_due: bool
    cron: str
    zone: str
    catch_up: CatchUp
    catch_up_limit: int
    jitter_s: int
    definition: str
    version: int | None
    payload: dict[str, Json]
    pending: list[RequestedFiring]


@dataclass(frozen=True, slots=True)
class NamedDefinition:
    """The definition of a schedule; `is_active` is None if it does not exist."""

    is_active: bool | None
    parameters: Json


@dataclass(frozen=True, slots=True)
class DueSchedules:
    """Due schedules with their definitions, and the database's time."""

    now: datetime
    wake_at: datetime | None
    triggers: list[DueSchedule]
    definitions: dict[tuple[str, int | None], NamedDefinition]


class PlannedFiring(NamedTuple):
    """A firing to record: with a payload for its job, or with an outcome and no job."""

    fire_at: datetime
    kind: FiringKind
    run_at: datetime | None = None
    payload: Json = None
    outcome: FiringOutcome | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, Json]:
        given = {name: value for name, value in self._asdict().items() if value is not None}
        return given if self.outcome else {**given, "payload": self.payload}


@dataclass(frozen=True, slots=True)
class Plan:
    """The firings of one due schedule and its next run. A `fault` disables the schedule."""

    of: DueSchedule
    next_run_at: datetime | None
    firings: list[PlannedFiring]
    fault: str | None = None

    def to_json(self) -> dict[str, Json]:
        return {
            "tenant_id": self.of.tenant_id,
            "id": self.of.id,
            "due_at": self.of.due_at,
            "updated_at": self.of.updated_at,
            "next_run_at": self.next_run_at,
            "fault": self.fault,
            "firings": [firing.to_json() for firing in self.firings],
        }
