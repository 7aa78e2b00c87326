"""Routes of jobs: create, view and change."""

import asyncio
import hashlib
from typing import Annotated, Literal, TypeVar
from uuid import UUID

from fastapi import Header, Query
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from jobforge import calls
from jobforge.api import masking, request_body
from jobforge.api.artifact_download import download
from jobforge.api.caller import Caller, get_caller
from jobforge.api.guard import DirectRoute, create_router
from jobforge.api.pagination import Items, Page, Paging
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.base_types import Moment, NulFreeText
from jobforge.api.schemas.jobs import (
    CancelBody,
    CreatedJobView,
    JobChanges,
    JobId,
    JobState,
    NewJob,
    NewJobs,
    Reschedule,
    RetryBody,
    Summary,
    created_job_to_json,
)
from jobforge.artifacts.erasure import delete_folders
from jobforge.calls import Call
from jobforge.errors import Json
from jobforge.types.api_requests import EnqueuedOnce
from jobforge.types.job_history import Attempt, Explanation, JobEvent, JobHistory, StoredStep
from jobforge.types.jobs import Enqueued, EnqueueStatus, JobFilter, JobListing, JobOrder, JobRequest

router = create_router("jobs")

T = TypeVar("T")

_KEY_HEADER = "Idempotency-Key"
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias=_KEY_HEADER,
        min_length=1,
        max_length=255,
        pattern=r"^[!-~]([ -~]*[!-~])?$",
        description="For 24 hours, repeats return the same response; another body fails with 409.",
    ),
]
_IDEMPOTENCY_KEY: TypeAdapter[str | None] = TypeAdapter(IdempotencyKey)
_NEW_JOB = TypeAdapter(NewJob)
# FastAPI derives the same from the signatures of other routes.
_KEY_SCHEMA = {**_IDEMPOTENCY_KEY.json_schema(), "title": _KEY_HEADER}
_KEY_PARAMETER = {
    "name": _KEY_HEADER,
    "in": "header",
    "required": False,
    "schema": _KEY_SCHEMA,
    "description": _KEY_SCHEMA["description"],
}
_NEW_JOB_BODY = {
    "required": True,
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NewJob"}}},
}
JobStateName = Literal[
    "scheduled",
    "blocked",
    "queued",
    "running",
    "canceling",
    "succeeded",
    "canceled",
    "dead",
    "failed",
]


async def create_job(request: Request) -> JsonResponse:
    """Responds with 201 if it created the job, and with 200 and the existing job if one with the
    same key exists.
    """
    caller = await get_caller(request)
    key = _validate(_IDEMPOTENCY_KEY, request.headers.get(_KEY_HEADER), "header", _KEY_HEADER)
    raw, value = await request_body.read(request, caller.server.config.body_limit)
    job = caller.to_job_request(_validate(_NEW_JOB, value, "body"))
    await caller.server.payload_checker.check([job], path="payload", size=len(raw))
    (job,) = await caller.offload_large_payloads(caller.tenant_id, [job], raw)
    if key is None:
        enqueued = await caller.server.enqueue_batcher.enqueue(caller.tenant_id, job)
        return JsonResponse(created_job_to_json(enqueued), _created_status(enqueued))
    (once,) = await caller.run(_build_idempotent_call(key, request, raw, [job]))
    return JsonResponse(created_job_to_json(once), _created_status(once), _replay_headers([once]))


router.add_api_route(
    "/jobs",
    create_job,
    methods=["POST"],
    route_class_override=DirectRoute,
    status_code=201,
    response_model=CreatedJobView,
    summary="Create a job",
    responses={200: {"model": CreatedJobView, "description": "A job with the same key exists."}},
    openapi_extra={"parameters": [_KEY_PARAMETER], "requestBody": _NEW_JOB_BODY},
)


@router.post(
    "/jobs/batch",
    status_code=201,
    response_model=Items[CreatedJobView],
    summary="Create multiple jobs",
)
async def create_jobs(
    body: NewJobs, caller: Caller, request: Request, idempotency_key: IdempotencyKey = None
) -> JsonResponse:
    """Creates all jobs or none. The response lists them in the order of the request."""
    jobs = list(map(caller.to_job_request, body.jobs))
    raw = await request.body()
    await caller.server.payload_checker.check(jobs, path="jobs.{}.payload", size=len(raw))
    jobs = await caller.offload_large_payloads(caller.tenant_id, jobs, raw)
    if idempotency_key is None:
        enqueued = await caller.run(calls.enqueue_jobs(jobs))
        return JsonResponse({"items": list(map(created_job_to_json, enqueued))}, 201)
    call = _build_idempotent_call(idempotency_key, request, raw, jobs)
    enqueued_once = await caller.run(call)
    return JsonResponse(
        {"items": list(map(created_job_to_json, enqueued_once))},
        201,
        _replay_headers(enqueued_once),
    )


@router.get("/jobs", response_model=Page[JobListing], summary="List jobs")
async def list_jobs(
    *,
    caller: Caller,
    page: Paging,
    state: Annotated[
        list[JobStateName] | None, Query(max_length=9, description="States to match.")
    ] = None,
    definition: Annotated[
        NulFreeText | None, Query(max_length=255, description="Definition to match.")
    ] = None,
    queue: Annotated[
        NulFreeText | None, Query(max_length=255, description="Queue to match.")
    ] = None,
    tag: Annotated[NulFreeText | None, Query(max_length=255, description="Tag to match.")] = None,
    source: Annotated[
        NulFreeText | None,
        Query(max_length=255, description="Source to match, such as `schedule`."),
    ] = None,
    key: Annotated[
        NulFreeText | None, Query(max_length=255, description="Idempotency key to match.")
    ] = None,
    correlation_id: Annotated[
        NulFreeText | None, Query(max_length=255, description="Correlation ID to match.")
    ] = None,
    fingerprint: Annotated[
        NulFreeText | None, Query(max_length=255, description="Failure group to match.")
    ] = None,
    created_after: Annotated[
        Moment | None, Query(description="Match jobs created after this time.")
    ] = None,
    created_before: Annotated[
        Moment | None, Query(description="Match jobs created before this time.")
    ] = None,
    order: Annotated[JobOrder, Query(description="Sort order by creation time.")] = "newest",
) -> JsonResponse:
    """Sorted by creation time. A job must match all filters; repeat `state` to match any of
    several. The state `failed` matches jobs whose last attempt failed.
    """
    which = JobFilter(
        state=state or None,
        definition=definition,
        queue=queue,
        tag=tag,
        source=source,
        key=key,
        correlation_id=correlation_id,
        fingerprint=fingerprint,
        created_after=created_after,
        created_before=created_before,
    )
    call = calls.list_jobs(which, limit=page.limit, before=page.decode_id(), order=order)
    jobs = await caller.run(call)
    return page.respond(masking.mask_listings(jobs))


@router.get("/jobs/{job_id}", response_model=JobHistory, summary="Get a job")
async def get_job(job_id: UUID, caller: Caller) -> JsonResponse:
    """Returns the job with all its fields, its attempts and its timeline. Secrets are masked."""
    return JsonResponse(masking.mask_history(await caller.run(calls.get_job(job_id))))


@router.get(
    "/jobs/{job_id}/attempts", response_model=Items[Attempt], summary="List a job's attempts"
)
async def list_attempts(job_id: UUID, caller: Caller) -> JsonResponse:
    """Returns the attempts with the ends of their output, oldest first. The attempt in progress is
    included.
    """
    history = await caller.run(calls.get_job(job_id))
    return JsonResponse({"items": masking.mask_attempts(history.attempts)})


@router.get(
    "/jobs/{job_id}/events", response_model=Items[JobEvent], summary="List a job's timeline"
)
async def list_events(job_id: UUID, caller: Caller) -> JsonResponse:
    """Returns state changes, operator actions and progress reports, oldest first."""
    history = await caller.run(calls.get_job(job_id))
    return JsonResponse({"items": masking.mask_job_events(history.events)})


@router.get(
    "/jobs/{job_id}/explain",
    response_model=Items[Explanation],
    summary="Explain why a job does not run",
)
async def explain_job(job_id: UUID, caller: Caller) -> JsonResponse:
    """Returns the reasons why the job does not run, the most important one first, each with a
    remedy.
    """
    return JsonResponse({"items": await caller.run(calls.explain_job(job_id))})


@router.get(
    "/jobs/{job_id}/artifact",
    response_class=Response,
    summary="Download a job's artifact",
    responses={
        200: {
            "description": "The file, as an attachment.",
            "content": {"application/octet-stream": {"schema": {"type": "string"}}},
        },
        307: {"description": "Temporary link to the file, if artifact links are enabled."},
    },
)
async def download_artifact(
    job_id: UUID,
    caller: Caller,
    of: Annotated[Literal["payload", "result"] | None, Query()] = None,
    proxied: Annotated[bool, Query()] = False,  # noqa: FBT002 - query parameter
) -> Response:
    """The artifact that the result refers to, or the result or payload itself if it is too large
    for the job's row. Nothing is masked. With `proxied`, this server always sends the content
    itself.
    """
    job = (await caller.run(calls.get_job(job_id))).job
    return await download(caller.server, job, of, may_redirect=not proxied)


@router.get("/jobs/{job_id}/steps", response_model=Items[StoredStep], summary="List a job's steps")
async def list_steps(job_id: UUID, caller: Caller) -> JsonResponse:
    """Returns the completed steps, oldest first, and then the step that the job is waiting for."""
    return JsonResponse({"items": masking.mask_steps(await caller.run(calls.list_steps(job_id)))})


@router.post(
    "/jobs/{job_id}/cancel", status_code=202, response_model=JobState, summary="Cancel a job"
)
async def cancel_job(job_id: UUID, caller: Caller, body: CancelBody | None = None) -> JsonResponse:
    """Returns `canceled` if the job was waiting or dead, and `canceling` if its worker must stop it
    first.
    """
    reason = body.reason if body else None
    return JsonResponse({"state": await caller.run(calls.cancel_job(job_id, reason=reason))}, 202)


@router.post("/jobs/{job_id}/erase", status_code=204, summary="Erase a job's data")
async def erase_job(job_id: UUID, caller: Caller) -> JsonResponse:
    """Erases payload, result, errors, output, notes, steps and artifacts of a job that has finished
    or is dead; its id, times and states stay. An erased job cannot be retried. A job that has not
    finished is refused with `conflict`: cancel it first. If an event created the job, the event's
    data stays until retention drops it (`history_days`, default: 14).
    """
    folders = await caller.run(calls.erase_job(job_id))
    await asyncio.to_thread(delete_folders, caller.server.artifacts, folders)
    return JsonResponse(status=204)


@router.post("/jobs/{job_id}/retry", status_code=202, response_model=JobId, summary="Retry a job")
async def retry_job(job_id: UUID, caller: Caller, body: RetryBody | None = None) -> JsonResponse:
    """Returns the job that will run: the same job if it was dead; a new job (`retry_of`) if it had
    succeeded or was canceled, or if the request has another payload.
    """
    options = body or RetryBody()
    if options.payload is not None:
        await _check_payload(caller, job_id, options.payload)
    retried_id = await caller.run(
        calls.retry_job(job_id, payload=options.payload, attempts=options.attempts)
    )
    return JsonResponse({"id": retried_id}, 202)


@router.post("/jobs/{job_id}/reschedule", response_model=JobState, summary="Reschedule a job")
async def reschedule_job(job_id: UUID, body: Reschedule, caller: Caller) -> JsonResponse:
    """Sets when a waiting job starts. Fails with 409 if the job is not waiting to run."""
    return JsonResponse({"state": await caller.run(calls.reschedule_job(job_id, body.run_at))})


@router.patch("/jobs/{job_id}", response_model=JobState, summary="Update a waiting job")
async def edit_job(job_id: UUID, body: JobChanges, caller: Caller) -> JsonResponse:
    """Omitted fields are unchanged. Fails with 409 if the job is not waiting to run."""
    changes = body.given_fields()
    if body.payload is not None:
        await _check_payload(caller, job_id, body.payload)
    return JsonResponse({"state": await caller.run(calls.edit_job(job_id, changes))})


@router.get("/summary", response_model=Summary, summary="Count jobs by queue and state")
async def summarize(
    caller: Caller, window_s: Annotated[float, Query(gt=0, le=31_536_000)] = 86_400
) -> JsonResponse:
    """Counts up to 100,000 jobs finished within the window, and all jobs that have not finished."""
    summary = await caller.run(calls.summarize(window_s=window_s))
    return JsonResponse({"window_s": window_s, "items": summary})


async def _check_payload(caller: Caller, job_id: UUID, payload: dict[str, Json]) -> None:
    job = (await caller.run(calls.get_job(job_id))).job
    await caller.server.payload_checker.check_one(job.definition, job.version, payload)


def _build_idempotent_call(
    key: str, request: Request, body: bytes, jobs: list[JobRequest]
) -> Call[list[EnqueuedOnce]]:
    # The path is part of the hash: one job is not the same request as a batch of one.
    hashed = request.url.path.encode() + b"\n" + body
    return calls.enqueue_jobs_once(jobs, request_key=key, body_hash=hashlib.sha256(hashed).digest())


def _validate(kind: TypeAdapter[T], value: Json, *location: str) -> T:
    """Return the value as FastAPI would pass it to a route; raise RequestValidationError."""
    try:
        return kind.validate_python(value, from_attributes=True)
    except ValidationError as error:
        faults = [{**fault, "loc": (*location, *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from error


def _created_status(enqueued: Enqueued | EnqueuedOnce) -> int:
    return 201 if enqueued.status is EnqueueStatus.CREATED else 200


def _replay_headers(enqueued: list[EnqueuedOnce]) -> dict[str, str]:
    return {"Idempotent-Replayed": "true"} if enqueued[0].replayed else {}
