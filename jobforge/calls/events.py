"""Calls on events: applications emit them, users read them, schedulers dispatch them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.rows import Rows, make_reader
from jobforge.errors import Json
from jobforge.types.events import (
    DeliveryOutcome,
    Dispatched,
    Event,
    EventDelivery,
    EventFilter,
    EventListing,
    EventTrigger,
    PendingEvent,
    PendingEvents,
)
from jobforge.types.jsonb import encode

EVERY_EVENT = EventFilter()

_read_event_delivery = make_reader(EventDelivery)
_read_trigger = make_reader(EventTrigger)


def emit_event(
    name: str,
    data: dict[str, Json] | None = None,
    *,
    key: str | None = None,
    correlation_id: str | None = None,
    traceparent: str | None = None,
    tenant_id: UUID | None = None,
) -> Call[UUID]:
    """Record an event and return its ID."""
    options = {"key": key, "correlation_id": correlation_id, "traceparent": traceparent}
    given = {option: value for option, value in options.items() if value is not None}
    return Call(
        "select jobforge.emit_event(%s, %s::jsonb, %s::jsonb, %s)",
        (name, encode({} if data is None else data, "data"), encode(given, "options"), tenant_id),
        rows.value,
    )


def get_event(event_id: UUID, *, tenant_id: UUID | None = None) -> Call[Event]:
    """Return an event and the outcome of each trigger. Raises NotFound."""
    return Call(
        """
        select id, name, correlation_id, key, traceparent, created_by, created_at, is_pending,
               data, deliveries
          from jobforge.get_event(%s, %s)
        """,
        (event_id, tenant_id),
        _event,
    )


def list_events(
    which: EventFilter = EVERY_EVENT,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[EventListing]]:
    """List events, newest first; `before` is the last ID of the previous page."""
    return Call(
        """
        select id, name, correlation_id, key, traceparent, created_by, created_at, is_pending,
               outcomes
          from jobforge.list_events(%s::jsonb, %s::integer, %s, %s)
        """,
        (encode(which.to_json(), "filter"), limit, before, tenant_id),
        _event_listings,
    )


def list_event_deliveries(
    trigger_id: UUID,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
    outcome: DeliveryOutcome | None = None,
) -> Call[list[EventDelivery]]:
    """List a trigger's deliveries, newest first; `before` is the last ID of the previous page."""
    return Call(
        """
        select id, event_id, trigger_id, label, outcome, reason, job_id, replay, at
          from jobforge.list_event_deliveries(%s, %s::integer, %s, %s, %s)
        """,
        (trigger_id, limit, before, tenant_id, outcome),
        _event_deliveries,
    )


def replay_event(event_id: UUID, *, tenant_id: UUID | None = None) -> Call[int]:
    """Deliver an event again; return the replay number of the new deliveries."""
    return Call("select jobforge.replay_event(%s, %s)", (event_id, tenant_id), rows.value)


def pending_events(*, limit: int = 500, after: UUID | None = None) -> Call[PendingEvents]:
    """Return undispatched events after a position; other schedulers skip them for 5 seconds."""
    return Call("select jobforge.pending_events(%s::integer, %s)", (limit, after), _pending_events)


def record_deliveries(dispatched: Sequence[Dispatched]) -> Call[dict[str, int]]:
    """Return the number of events dispatched and of deliveries by outcome."""
    document = [
        {"id": entry.id, "deliveries": [reaction._asdict() for reaction in entry.reactions]}
        for entry in dispatched
    ]
    return Call(
        "select jobforge.record_deliveries(%s::jsonb)",
        (encode(document, "deliveries"),),
        rows.value,
    )


def _event(rows: Rows) -> Event:
    found = Event(*rows[0])
    return replace(found, deliveries=[_read_event_delivery(each) for each in rows[0][-1]])


def _event_listings(rows: Rows) -> list[EventListing]:
    return [EventListing(*row) for row in rows]


def _event_deliveries(rows: Rows) -> list[EventDelivery]:
    return [replace(EventDelivery(*row), outcome=DeliveryOutcome(row[4])) for row in rows]


def _pending_events(rows: Rows) -> PendingEvents:
    document = rows[0][0]
    triggers = map(_read_trigger, document["triggers"])
    return PendingEvents(
        [_pending_event(event) for event in document["events"]],
        {trigger.id: trigger for trigger in triggers},
        {(each["key"], each["version"]): each["parameters"] for each in document["definitions"]},
    )


def _pending_event(document: dict[str, Json]) -> PendingEvent:
    return PendingEvent(
        UUID(document["id"]),
        UUID(document["event_id"]),
        document["name"],
        datetime.fromisoformat(document["created_at"]),
        document["correlation_id"],
        document["key"],
        document["traceparent"],
        document["replay"],
        [UUID(trigger) for trigger in document["triggers"]],
        document["data"],
    )
