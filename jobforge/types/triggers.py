"""The words of triggers as data: schedules and triggers by event, firings, what a scheduler reads.

As jobs.py has those of jobs. Owns no behaviour beyond being read from JSON and written as it.
"""

from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from jobforge.errors import Json


class TriggerType(StrEnum):
    SCHEDULE = "schedule"
    EVENT = "event"


class CatchUp(StrEnum):
    """What becomes of firings that no scheduler was there for."""

    NONE = "none"
    LAST = "last"
    ALL = "all"  # up to a limit, the latest


class Overlap(StrEnum):
    """What becomes of a firing while a job of the one before is not finished."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"  # one may wait
    CANCEL_RUNNING = "cancel_running"


class FiringKind(StrEnum):
    SCHEDULE = "schedule"
    MANUAL = "manual"
    BACKFILL = "backfill"


class FiringOutcome(StrEnum):
    PENDING = "pending"  # asked for by hand, and not yet made
    ENQUEUED = "enqueued"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Trigger:
    """What makes jobs by itself. `zone` is whose clocks a schedule goes by."""

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
    deduplicated: int  # events without a job of their own; 10,000 means as many or more
    last_fired_at: datetime | None
    next_run_at: datetime | None
    created_at: datetime
    updated_at: datetime
    created_by: str


@dataclass(frozen=True, slots=True)
class TriggerFilter:
    """Which triggers; all that is given must hold."""

    type: TriggerType | None = None
    definition: str | None = None
    event: str | None = None
    enabled: bool | None = None

    def to_json(self) -> dict[str, Json]:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        given = {name: value for name, value in values if value is not None}
        if self.enabled is not None:
            given["enabled"] = "true" if self.enabled else "false"
        return given


@dataclass(frozen=True, slots=True)
class Firing:
    """One time of a schedule: the job that it made, or why there is none."""

    fire_at: datetime
    at: datetime
    kind: FiringKind
    outcome: FiringOutcome
    reason: str | None
    job_id: UUID | None
    created_by: str | None


class RequestedFiring(NamedTuple):
    """A firing that somebody asked for."""

    fire_at: datetime
    kind: FiringKind


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule as the scheduler reads it; `is_due` is the database's word."""

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
    pending: tuple[RequestedFiring, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedDefinition:
    """What a schedule names; `is_active` is None when there is no such definition."""

    is_active: bool | None
    parameters: Json


@dataclass(frozen=True, slots=True)
class DueSchedules:
    """What there is to do, by the database's clock."""

    now: datetime
    wake_at: datetime | None
    triggers: list[DueSchedule]
    definitions: dict[tuple[str, int | None], NamedDefinition]


class PlannedFiring(NamedTuple):
    """A firing to be recorded: with a payload for its job, or an outcome that has none."""

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
    """What is to come of one due schedule. A fault disables it."""

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


def read_due_schedules(document: dict[str, Any]) -> DueSchedules:
    """What due_schedules answers."""
    return DueSchedules(
        datetime.fromisoformat(document["now"]),
        _moment(document["wake_at"]),
        [_read_schedule(dict(each)) for each in document["triggers"]],
        {
            (each["definition"], each["version"]): NamedDefinition(
                each["is_active"], each["parameters"]
            )
            for each in document["definitions"]
        },
    )


def _read_schedule(document: dict[str, Any]) -> DueSchedule:
    for name in ("since", "next_run_at", "last_fired_at", "starts_at", "ends_at"):
        document[name] = _moment(document[name])
    document["catch_up"] = CatchUp(document["catch_up"])
    document["pending"] = tuple(
        RequestedFiring(datetime.fromisoformat(each["fire_at"]), FiringKind(each["kind"]))
        for each in document["pending"]
    )
    return DueSchedule(**document)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
