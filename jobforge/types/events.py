"""Events as data: events, trigger deliveries, and the outbox.

An application emits an event to say that something happened. The triggers that exist when the event
is dispatched decide which jobs to enqueue.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jsonb import JsonFields


class DeliveryOutcome(StrEnum):
    """Outcome of an event for one trigger."""

    ENQUEUED = "enqueued"
    DEDUPLICATED = "deduplicated"  # another job of the same trigger covers it
    FILTERED = "filtered"  # the event's data does not match the filter
    FAILED = "failed"  # `reason` has the cause


@dataclass(frozen=True, slots=True)
class EventFilter(JsonFields):
    """Filter of events; all set fields must match. `name` may end in a wildcard: `order.*`."""

    name: str | None = None
    correlation_id: str | None = None
    after: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class EventDelivery:
    """Delivery of one event to one trigger. `replay` is 0 for the first delivery."""

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
    """An event in a list; `outcomes` counts its deliveries by outcome."""

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
    """An event with its deliveries so far."""

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
    """An entry of the outbox. `triggers` are those whose pattern matches the event's name."""

    id: UUID
    event_id: UUID
    name: str | None  # None if the event was deleted
    created_at: datetime
    correlation_id: str | None
    key: str | None
    traceparent: str | None
    replay: int
    triggers: list[UUID]
    data: Json


class EventTrigger(NamedTuple):
    """The fields of a trigger that dispatching an event needs."""

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
    """Events to dispatch, with the triggers and schemas that dispatching needs."""

    events: list[PendingEvent]
    triggers: dict[UUID, EventTrigger]
    parameters: dict[tuple[str, int | None], Json]  # the schema, by definition and version


class Reaction(NamedTuple):
    """A trigger's decision on an event: a job to enqueue, or the reason for none."""

    trigger_id: UUID
    outcome: DeliveryOutcome
    reason: str | None = None
    job: dict[str, Json] | None = None


class Dispatched(NamedTuple):
    """An outbox entry with the decisions of its triggers."""

    id: UUID
    reactions: list[Reaction]
