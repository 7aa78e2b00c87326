"""Routes of events: emit, view, replay, and test triggers."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.masking import mask_event
from jobforge.api.pagination import Page, Paging
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.base_types import Moment, NulFreeText
from jobforge.api.schemas.events import (
    EventId,
    EventReplay,
    NewEvent,
    TriggerTestBody,
    TriggerTestResult,
)
from jobforge.redact import mask
from jobforge.scheduler import reaction
from jobforge.types.events import DeliveryOutcome, Event, EventDelivery, EventFilter, EventListing

router = create_router("events")

EventFilterText = Annotated[NulFreeText | None, Query(max_length=255)]


@router.post("/events", status_code=201, response_model=EventId, summary="Emit an event")
async def emit_event(body: NewEvent, caller: Caller) -> JsonResponse:
    """Matching triggers create jobs shortly afterwards; get the event to see which."""
    call = calls.emit_event(
        body.name,
        body.data,
        key=body.key,
        correlation_id=body.correlation_id,
        traceparent=body.traceparent or caller.traceparent,
    )
    return JsonResponse({"id": await caller.run(call)}, 201)


@router.get("/events", response_model=Page[EventListing], summary="List events")
async def find_events(
    *,
    caller: Caller,
    page: Paging,
    name: Annotated[
        NulFreeText | None,
        Query(max_length=255, description="Event name, or a prefix such as `order.*`."),
    ] = None,
    correlation_id: EventFilterText = None,
    after: Annotated[Moment | None, Query()] = None,
    before: Annotated[Moment | None, Query()] = None,
) -> JsonResponse:
    """Returns the events without their data, newest first. `outcomes` counts each event's
    deliveries by outcome.
    """
    which = EventFilter(name, correlation_id, after, before)
    found = await caller.run(calls.list_events(which, limit=page.limit, before=page.decode_id()))
    return page.respond(found)


@router.get("/events/{event_id}", response_model=Event, summary="Get an event")
async def get_event(event_id: UUID, caller: Caller) -> JsonResponse:
    """Includes each trigger's delivery: the job it created, or why it created none."""
    return JsonResponse(mask_event(await caller.run(calls.get_event(event_id))))


@router.post(
    "/events/{event_id}/replay",
    status_code=202,
    response_model=EventReplay,
    summary="Replay an event",
)
async def replay_event(event_id: UUID, caller: Caller) -> JsonResponse:
    """Evaluates all triggers as they are now. Jobs that earlier deliveries created are created
    again.
    """
    return JsonResponse({"replay": await caller.run(calls.replay_event(event_id))}, 202)


@router.get(
    "/triggers/{trigger_id}/deliveries",
    response_model=Page[EventDelivery],
    summary="List a trigger's deliveries",
)
async def list_event_deliveries(
    *,
    trigger_id: UUID,
    caller: Caller,
    page: Paging,
    outcome: Annotated[
        DeliveryOutcome | None, Query(description="Only deliveries with this outcome.")
    ] = None,
) -> JsonResponse:
    """Returns the deliveries, newest first. A deduplicated delivery names the job that covers its
    event.
    """
    call = calls.list_event_deliveries(
        trigger_id, limit=page.limit, before=page.decode_id(), outcome=outcome
    )
    return page.respond(await caller.run(call))


@router.post(
    "/triggers/{trigger_id}/test",
    response_model=TriggerTestResult,
    summary="Test a trigger with a past event",
)
async def try_trigger(trigger_id: UUID, body: TriggerTestBody, caller: Caller) -> JsonResponse:
    """Returns the job that the trigger would create, or why it would create none.

    Changes nothing.
    """
    trigger = await caller.run(calls.get_trigger(trigger_id))
    event = await caller.run(calls.get_event(body.event_id))
    definition = await caller.run(calls.get_definition(trigger.definition, version=trigger.version))
    tried = reaction.dry_run(trigger, event, definition.parameters)
    job = {**tried.job, "payload": mask(tried.job["payload"])} if tried.job else None
    return JsonResponse({"outcome": tried.outcome, "reason": tried.reason, "job": job})
