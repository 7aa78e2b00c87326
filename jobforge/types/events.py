"""The words of events as data: an event, what triggers made of it, and what is still to be done.

As jobs.py has those of jobs. An event is something that an application says has happened; what
comes of it is decided later, by the triggers that are there then.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from jobforge.errors import Json


class DeliveryOutcome(StrEnum):
    """What a trigger made of an event."""

    ENQUEUED = "enqueued"
    DEDUPLICATED = "deduplicated"  # another job of the same trigger covers it
    FILTERED = "filtered"  # what the event says does not fit
    FAILED = "failed"  # the reason says why


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events; all that is given must hold. `name` may be the start of one: `order.*`."""

    name: str | None = None
    correlation_id: str | None = None
    after: datetime | None = None
    before: datetime | None = None

    def to_json(self) -> dict[str, Json]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class EventDelivery:
    """What became of one event by one trigger. `replay` is 0 for the first time over."""

    id: UUID
    event_id: UUID
    trigger_id: UUID
    label: str | None
    outcome: DeliveryOutcome
    reason: str | None
    job_id: UUID | None
    replay: int
    at: datetime


@dataclass(frozen=True, slots=True)
class EventListing:
    """An event as a list shows it; `outcomes` counts its deliveries."""

    id: UUID
    name: str
    correlation_id: str
    key: str | None
    traceparent: str | None
    created_by: str
    created_at: datetime
    is_pending: bool
    outcomes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Event:
    """An event, and what came of it so far."""

    id: UUID
    name: str
    correlation_id: str
    key: str | None
    traceparent: str | None
    created_by: str
    created_at: datetime
    is_pending: bool
    data: dict[str, Json]
    deliveries: list[EventDelivery]


class PendingEvent(NamedTuple):
    """A place in the outbox. `triggers` are those whose pattern its name fits."""

    id: UUID
    event_id: UUID
    name: str | None  # None when the event is gone
    created_at: datetime
    correlation_id: str | None
    key: str | None
    traceparent: str | None
    replay: int
    triggers: list[UUID]
    data: Json


class EventTrigger(NamedTuple):
    """A trigger as far as an event is concerned."""

    id: UUID
    definition: str
    version: int | None
    queue: str | None
    priority: int
    payload: Json
    filter: Json
    dedupe_window_s: int
    dedupe_key: str | None


class PendingEvents(NamedTuple):
    """Events to be dispatched, and all that is needed for it."""

    events: list[PendingEvent]
    triggers: dict[UUID, EventTrigger]
    parameters: dict[tuple[str, int | None], Json]  # the schema, by definition and version


class Reaction(NamedTuple):
    """What a trigger makes of an event: a job to enqueue, or why there is none."""

    trigger_id: UUID
    outcome: DeliveryOutcome
    reason: str | None = None
    job: dict[str, Json] | None = None


class Dispatched(NamedTuple):
    """A place in the outbox, and what the triggers make of its event."""

    id: UUID
    reactions: list[Reaction]
