"""Routes of the live stream and of job logs."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response

from jobforge import calls
from jobforge.api import masking
from jobforge.api.caller import Caller, CallerContext
from jobforge.api.guard import create_router
from jobforge.api.live.client_stream import stream_events
from jobforge.api.live.job_log import JobLogFollower
from jobforge.api.live.sse import EventStream, SseFrames
from jobforge.api.live.subscription import StreamFilter
from jobforge.api.pagination import Cursor, Page, build_page, decode_cursor
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.base_types import NulFreeText
from jobforge.errors import Invalid
from jobforge.types.job_history import JobEvent

router = create_router("stream")

_MAX_FILTER_VALUES = 50
_STREAM_SCHEMA = {"schema": {"type": "string"}}
_ATTEMPT_EXAMPLE = """\
id: 771:1763200000000000:attempt:5230861443022134712
event: attempt
data: {"job_id": "0198…", "definition": "send_welcome", "outcome": "succeeded", …}

"""
_LOG_EXAMPLE = """\
id: 2026-12-24T18:00:00.000001+00:00
event: log
data: {"at": "2026-12-24T18:00:00.000001Z", "kind": "log", "data": {"message": "sent"}, …}

"""

StreamStateName = Literal["scheduled", "queued", "succeeded", "canceled", "dead", "failed"]
NoteKind = Literal["log", "progress", "event"]
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        max_length=200,
        description="ID of the last received event; the stream resumes after it.",
    ),
]


@router.get(
    "/stream",
    status_code=200,
    summary="Stream live events",
    response_class=EventStream,
    responses={
        200: {"content": {"text/event-stream": {**_STREAM_SCHEMA, "example": _ATTEMPT_EXAMPLE}}}
    },
)
async def stream(
    request: Request,
    caller: Caller,
    *,
    job: Annotated[list[UUID] | None, Query(max_length=_MAX_FILTER_VALUES)] = None,
    definition: Annotated[list[NulFreeText] | None, Query(max_length=_MAX_FILTER_VALUES)] = None,
    state: Annotated[list[StreamStateName] | None, Query(max_length=6)] = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Server-sent events of the tenant:

    `attempt` when an attempt finished, with the job's new state; `event` for progress and for
    actions on a job; `snapshot` with the number of jobs by queue and state after a change, at most
    once per second. `reset` means that the events since Last-Event-ID are no longer available.
    `cut` has the reason why the server ends the stream; reconnect with Last-Event-ID.

    Repeat a filter to match any of several values. With `state`, the stream has only attempts.
    """
    watch = StreamFilter(
        caller.principal.tenant_id,
        frozenset(job or ()),
        frozenset(definition or ()),
        frozenset(state or ()),
    )

    async def check() -> None:
        await caller.server.authentication.authenticate(request)

    return _open_stream(caller, stream_events(caller.server.hub, watch, last_event_id, check))


@router.get(
    "/jobs/{job_id}/logs",
    status_code=200,
    summary="List a job's log lines",
    response_model=Page[JobEvent],
    responses={
        200: {"content": {"text/event-stream": {**_STREAM_SCHEMA, "example": _LOG_EXAMPLE}}}
    },
)
async def list_logs(
    request: Request,
    job_id: UUID,
    caller: Caller,
    *,
    follow: Annotated[bool, Query(description="Stream events until the job finishes.")] = False,
    kind: Annotated[list[NoteKind] | None, Query(max_length=3)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    cursor: Cursor = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Returns the notes, oldest first. With `follow`, the response is a stream of events. Each is
    named after the kind of the note; `end` contains the job's final state.
    """
    kinds = list(kind or ["log"])
    after = _parse_log_cursor(decode_cursor(cursor) or (last_event_id if follow else None))
    if not follow:
        notes = await caller.run(calls.list_notes(job_id, after=after, kinds=kinds, limit=limit))
        return JsonResponse(
            build_page(masking.mask_job_events(notes), limit, lambda note: note.at.isoformat())
        )
    # Raise NotFound here: once the stream has started, the status cannot change.
    await caller.run(calls.list_notes(job_id, limit=1))

    async def check() -> None:
        await caller.server.authentication.authenticate(request)

    return _open_stream(caller, JobLogFollower(caller, job_id, kinds, after).stream_frames(check))


def _open_stream(caller: CallerContext, frames: SseFrames) -> EventStream:
    """Open an event stream; raise TooManyStreams."""
    streams, actor = caller.server.stream_limiter, caller.principal.actor
    streams.acquire(actor)
    return EventStream(frames, lambda: streams.release(actor))


def _parse_log_cursor(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid("cursor is not a valid log cursor", field="cursor") from error
    if moment.tzinfo is None:
        raise Invalid("cursor is not a valid log cursor", field="cursor")
    return moment
