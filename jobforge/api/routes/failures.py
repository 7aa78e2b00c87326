"""Routes of failure groups: dead jobs grouped by their error."""

from typing import Annotated

from fastapi import Path, Query

from jobforge import calls
from jobforge.api import masking
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.pagination import Page, Paging
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.base_types import Moment, NulFreeText
from jobforge.api.schemas.failures import Annotation, Discard, Redrive
from jobforge.api.schemas.operations import OperationId
from jobforge.errors import NotFound
from jobforge.types.failures import FailureFilter, FailureGroup
from jobforge.types.jobs import JobFilter
from jobforge.types.operations import OperationKind, OperationOptions

router = create_router("failures")

Fingerprint = Annotated[NulFreeText, Path(min_length=1, max_length=100)]


@router.get("/failures", response_model=Page[FailureGroup], summary="List failure groups")
async def list_failures(
    *,
    caller: Caller,
    page: Paging,
    definition: Annotated[NulFreeText | None, Query(max_length=200)] = None,
    queue: Annotated[NulFreeText | None, Query(max_length=50)] = None,
    since: Annotated[Moment | None, Query()] = None,
) -> JsonResponse:
    """Returns the groups, sorted by their newest job, which is `sample_job_id`. `jobs` counts up to
    10,000.
    """
    which = FailureFilter(definition, queue, since)
    groups = await caller.run(calls.list_failures(which, limit=page.limit, before=page.decode_id()))
    return page.respond(masking.mask_failures(groups), key=lambda group: group.sample_job_id)


@router.patch("/failures/{fingerprint}", status_code=204, summary="Annotate a failure group")
async def annotate_failure(
    fingerprint: Fingerprint, body: Annotation, caller: Caller
) -> JsonResponse:
    """Sets a note, a time until which the group is snoozed, and the build that fixes it."""
    await caller.run(calls.annotate_failure(fingerprint, body.given_fields()))
    return JsonResponse(status=204)


@router.post(
    "/failures/{fingerprint}/redrive",
    status_code=202,
    response_model=OperationId,
    summary="Redrive a failure group",
)
async def redrive_failure(
    fingerprint: Fingerprint, caller: Caller, body: Redrive | None = None
) -> JsonResponse:
    """Returns the operation that retries the jobs. It stops if a canary job fails again."""
    options = (body or Redrive()).to_options()
    return await _start_operation(caller, OperationKind.REDRIVE, fingerprint, options)


@router.post(
    "/failures/{fingerprint}/discard",
    status_code=202,
    response_model=OperationId,
    summary="Discard a failure group",
)
async def discard_failure(
    fingerprint: Fingerprint, caller: Caller, body: Discard | None = None
) -> JsonResponse:
    """Returns the operation that discards the jobs. Discarded jobs are canceled."""
    options = OperationOptions(reason=body.reason if body else None)
    return await _start_operation(caller, OperationKind.DISCARD, fingerprint, options)


async def _start_operation(
    caller: Caller, kind: OperationKind, fingerprint: str, options: OperationOptions
) -> JsonResponse:
    which = JobFilter(fingerprint=fingerprint)
    if not await caller.run(calls.count_jobs(kind, which)):
        raise NotFound("Failure group not found")
    started = await caller.run(calls.start_operation(kind, which, options))
    caller.server.operations_loop.wake()
    return JsonResponse({"id": started}, 202)
