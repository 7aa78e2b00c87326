"""Calls on events: applications emit them, users read them, schedulers dispatch them."""

from collections.abc import Sequence
from uuid import UUID

from jobforge.calls.call import Call, JsonArgument, build_call
from jobforge.calls.results import many, one, read_document, value
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

EVERY_EVENT = EventFilter()


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
    return build_call(
        "emit_event",
        value(UUID, "id"),
        name=name,
        data=JsonArgument.from_value({} if data is None else data, "data"),
        options=given,
        tenant_id=tenant_id,
    )


def get_event(event_id: UUID, *, tenant_id: UUID | None = None) -> Call[Event]:
    """Return an event and the outcome of each trigger. Raises NotFound."""
    return build_call("get_event", one(Event), id=event_id, tenant_id=tenant_id)


def list_events(
    which: EventFilter = EVERY_EVENT,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[EventListing]]:
    """List events, newest first; `before` is the last ID of the previous page."""
    return build_call(
        "list_events",
        many(EventListing),
        filter=which,
        limit=limit,
        before=before,
        tenant_id=tenant_id,
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
    return build_call(
        "list_event_deliveries",
        many(EventDelivery),
        trigger_id=trigger_id,
        limit=limit,
        before=before,
        tenant_id=tenant_id,
        outcome=outcome,
    )


def replay_event(event_id: UUID, *, tenant_id: UUID | None = None) -> Call[int]:
    """Deliver an event again. Returns the replay number of the new deliveries."""
    return build_call("replay_event", value(int, "replay"), id=event_id, tenant_id=tenant_id)


def pending_events(*, limit: int = 500, after: UUID | None = None) -> Call[PendingEvents]:
    """Return undispatched events after a position; other schedulers skip them for 5 seconds."""
    return build_call("pending_events", value(dict).map(_pending_events), limit=limit, after=after)


def record_deliveries(dispatched: Sequence[Dispatched]) -> Call[dict[str, int]]:
    """Return the number of events dispatched and of deliveries by outcome."""
    document = [
        {"id": entry.id, "deliveries": [reaction._asdict() for reaction in entry.reactions]}
        for entry in dispatched
    ]
    return build_call(
        "record_deliveries", value(dict), deliveries=JsonArgument.from_value(document, "deliveries")
    )


def _pending_events(document: dict[str, Json]) -> PendingEvents:
    triggers = [read_document(EventTrigger, each) for each in document["triggers"]]
    return PendingEvents(
        [read_document(PendingEvent, event) for event in document["events"]],
        {trigger.id: trigger for trigger in triggers},
        {(each["key"], each["version"]): each["parameters"] for each in document["definitions"]},
    )
