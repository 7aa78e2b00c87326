"""Routes of triggers: schedules and event triggers, and their history."""

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Query

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.masking import mask_trigger
from jobforge.api.pagination import Page, PageRequest, Paging
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.base_types import NulFreeText
from jobforge.api.schemas.triggers import (
    Backfill,
    BackfillResult,
    CreatedTriggerView,
    FireAt,
    NewTrigger,
    NextRuns,
    Preview,
    PreviewRequest,
    TriggerChanges,
)
from jobforge.errors import Invalid, Json
from jobforge.redact import mask
from jobforge.scheduler import template, validate
from jobforge.scheduler.cron import TENANT_ZONE
from jobforge.scheduler.interval import parse_times
from jobforge.scheduler.reaction import build_template_values
from jobforge.types.triggers import Firing, Trigger, TriggerFilter, TriggerType

router = create_router("triggers")

_INSTANT = timedelta(microseconds=1)

TriggerFilterText = Annotated[NulFreeText | None, Query(max_length=255)]


@router.get("/triggers", response_model=Page[Trigger], summary="List triggers")
async def list_triggers(
    *,
    caller: Caller,
    page: Paging,
    type: Annotated[TriggerType | None, Query()] = None,  # noqa: A002 - same name in all interfaces
    definition: TriggerFilterText = None,
    event: TriggerFilterText = None,
    enabled: Annotated[bool | None, Query()] = None,
) -> JsonResponse:
    """Newest first."""
    which = TriggerFilter(type, definition, event, enabled)
    found = await caller.run(calls.list_triggers(which, limit=page.limit, before=page.decode_id()))
    return page.respond([mask_trigger(each) for each in found])


@router.post(
    "/triggers", status_code=201, response_model=CreatedTriggerView, summary="Create a trigger"
)
async def create_trigger(body: NewTrigger, caller: Caller) -> JsonResponse:
    """A schedule's next run is set shortly afterwards, by the scheduler."""
    settings = body.to_settings()
    validate.check(body.type, settings)
    return JsonResponse({"id": await caller.run(calls.create_trigger(body.type, settings))}, 201)


@router.post("/triggers/preview", response_model=Preview, summary="Preview a trigger")
async def preview_trigger(body: PreviewRequest, caller: Caller) -> JsonResponse:
    """Returns a schedule's next runs, with the effect of daylight saving changes, and the payload
    that an event would produce.
    """
    if body.cron is None and body.payload is None:
        raise Invalid("cron or payload is required", field="cron")
    zone = await _resolve_zone(body.timezone, caller)
    runs = _preview_runs(body.cron, zone, after=body.after or datetime.now(UTC), count=body.count)
    return JsonResponse({**runs, "payload": await _render_payload(body, caller)})


def _preview_runs(
    text: str | None, zone: str, *, after: datetime, count: int, end: datetime | None = None
) -> dict[str, Json]:
    schedule = None if text is None else parse_times(text, zone)
    runs = [] if schedule is None else schedule.preview(after, count)
    return {
        "description": None if schedule is None else schedule.describe(),
        "timezone": zone,
        "runs": [
            {"at": run.at, "local": run.local.isoformat(), "change": run.change}
            for run in runs
            if end is None or run.at < end
        ],
    }


async def _resolve_zone(zone: str, caller: Caller) -> str:
    """Return the zone's name; resolve `tenant` to the tenant's zone."""
    if zone != TENANT_ZONE:
        return zone
    return next((own.timezone for own in await caller.run(calls.list_tenants())), "UTC")


async def _render_payload(body: PreviewRequest, caller: Caller) -> Json:
    if body.payload is None or (body.event is None and body.event_id is None):
        return body.payload
    if body.event_id is None:
        return template.render(body.payload, {"event": body.event})
    event = await caller.run(calls.get_event(body.event_id))
    return mask(template.render(body.payload, build_template_values(event)))


@router.get("/triggers/{trigger_id}", response_model=Trigger, summary="Get a trigger")
async def get_trigger(trigger_id: UUID, caller: Caller) -> JsonResponse:
    """`fault` is the reason why the scheduler disabled the trigger."""
    return JsonResponse(mask_trigger(await caller.run(calls.get_trigger(trigger_id))))


@router.patch("/triggers/{trigger_id}", status_code=204, summary="Update a trigger")
async def edit_trigger(trigger_id: UUID, body: TriggerChanges, caller: Caller) -> JsonResponse:
    """Omitted fields are unchanged. After a schedule is enabled or its times change, earlier missed
    runs are not made up later. Only `enabled` can be changed for a trigger declared in code.
    """
    before = await caller.run(calls.get_trigger(trigger_id))
    validate.check(before.type, body.given_fields(), before)
    await caller.run(calls.edit_trigger(trigger_id, body.given_fields()))
    return JsonResponse(status=204)


@router.delete("/triggers/{trigger_id}", status_code=204, summary="Delete a trigger")
async def delete_trigger(trigger_id: UUID, caller: Caller) -> JsonResponse:
    """Jobs that the trigger created are not affected."""
    await caller.run(calls.delete_trigger(trigger_id))
    return JsonResponse(status=204)


@router.post(
    "/triggers/{trigger_id}/run",
    status_code=202,
    response_model=FireAt,
    summary="Run a schedule now",
)
async def run_trigger(trigger_id: UUID, caller: Caller) -> JsonResponse:
    """Fires even if the schedule is disabled, and ignores its overlap policy. The scheduler creates
    the job.
    """
    return JsonResponse({"fire_at": await caller.run(calls.run_trigger(trigger_id))}, 202)


@router.post(
    "/triggers/{trigger_id}/backfill",
    status_code=202,
    response_model=BackfillResult,
    summary="Backfill a schedule",
)
async def backfill_trigger(trigger_id: UUID, body: Backfill, caller: Caller) -> JsonResponse:
    """Creates at most 1,000 runs. It skips times that already have a firing, so repeating the
    request changes nothing.
    """
    times = body.times
    if times is None:
        if body.start is None or body.end is None:
            raise Invalid("start and end, or times, are required", field="start")
        trigger = await caller.run(calls.get_trigger(trigger_id))
        end = min(body.end, datetime.now(UTC))
        times = validate.list_fire_times(trigger, body.start, end)
    firings = await caller.run(calls.backfill_trigger(trigger_id, times))
    return JsonResponse({"firings": firings}, 202)


@router.get(
    "/triggers/{trigger_id}/firings",
    response_model=Page[Firing],
    summary="List a schedule's run history",
)
async def list_firings(trigger_id: UUID, caller: Caller, page: Paging) -> JsonResponse:
    """Returns the job that each firing created, or why there is none, the latest firing first."""
    call = calls.list_firings(trigger_id, limit=page.limit, before=_decode_time_cursor(page))
    return page.respond(await caller.run(call), key=lambda firing: firing.fire_at.isoformat())


@router.get(
    "/triggers/{trigger_id}/next", response_model=NextRuns, summary="List a schedule's next runs"
)
async def next_runs(
    trigger_id: UUID, caller: Caller, count: Annotated[int, Query(ge=1, le=100)] = 5
) -> JsonResponse:
    """Returns the next runs, with the effect of daylight saving changes. For a disabled schedule,
    these are the runs that it would have.
    """
    trigger = await caller.run(calls.get_trigger(trigger_id))
    after = datetime.now(UTC)
    if trigger.starts_at is not None:
        after = max(after, trigger.starts_at - _INSTANT)
    return JsonResponse(
        _preview_runs(trigger.cron, trigger.zone, after=after, count=count, end=trigger.ends_at)
    )


def _decode_time_cursor(page: PageRequest) -> datetime | None:
    text = page.decode_text()
    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid("cursor is not a valid page cursor", field="cursor") from error
    if moment is not None and moment.tzinfo is None:
        raise Invalid("cursor is not a valid page cursor", field="cursor")
    return moment
