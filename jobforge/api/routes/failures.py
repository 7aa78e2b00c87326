"""Failures: dead jobs, grouped by what they died of."""

from typing import Annotated

from fastapi import Path, Query

from jobforge import calls
from jobforge.api import masking
from jobforge.api.caller import Caller
from jobforge.api.guard import area
from jobforge.api.pagination import DEFAULT_LIMIT, Cursor, Limit, Page, page, read_id
from jobforge.api.responses import Answer
from jobforge.api.schemas.base_types import Moment, Text
from jobforge.api.schemas.failures import Annotation, Discard, Redrive
from jobforge.api.schemas.operations import OperationId
from jobforge.errors import NotFound
from jobforge.types.failures import FailureFilter, FailureGroup
from jobforge.types.jobs import JobFilter
from jobforge.types.operations import OperationKind, OperationOptions

router = area("failures")

Fingerprint = Annotated[Text, Path(min_length=1, max_length=100)]


@router.get("/failures", response_model=Page[FailureGroup], summary="List groups of dead jobs")
async def list_failures(
    *,
    caller: Caller,
    definition: Annotated[Text | None, Query(max_length=200)] = None,
    queue: Annotated[Text | None, Query(max_length=50)] = None,
    since: Annotated[Moment | None, Query()] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Answer:
    """By their newest job. `sample_job_id` is one to look at; `jobs` stops at 10,000."""
    which = FailureFilter(definition, queue, since)
    groups = await caller.run(calls.list_failures(which, limit=limit, before=read_id(cursor)))
    return Answer(page(masking.masked_failures(groups), limit, lambda group: group.sample_job_id))


@router.patch("/failures/{fingerprint}", status_code=204, summary="Annotate a group of dead jobs")
async def annotate_failure(fingerprint: Fingerprint, body: Annotation, caller: Caller) -> Answer:
    """A note, until when to be silent about it, and the build that mends it."""
    await caller.run(calls.annotate_failure(fingerprint, body.given()))
    return Answer(status=204)


@router.post(
    "/failures/{fingerprint}/redrive",
    status_code=202,
    response_model=OperationId,
    summary="Run a group of dead jobs again",
)
async def redrive_failure(
    fingerprint: Fingerprint, caller: Caller, body: Redrive | None = None
) -> Answer:
    """Answers the operation that does it. A canary that dies again stops it."""
    options = (body or Redrive()).options()
    return await _start(caller, OperationKind.REDRIVE, fingerprint, options)


@router.post(
    "/failures/{fingerprint}/discard",
    status_code=202,
    response_model=OperationId,
    summary="Discard a group of dead jobs",
)
async def discard_failure(
    fingerprint: Fingerprint, caller: Caller, body: Discard | None = None
) -> Answer:
    """Answers the operation that does it. They end as canceled."""
    options = OperationOptions(reason=body.reason if body else None)
    return await _start(caller, OperationKind.DISCARD, fingerprint, options)


async def _start(
    caller: Caller, kind: OperationKind, fingerprint: str, options: OperationOptions
) -> Answer:
    which = JobFilter(fingerprint=fingerprint)
    if not await caller.run(calls.count_jobs(kind, which)):
        raise NotFound("there are no dead jobs of this fingerprint")
    started = await caller.run(calls.start_operation(kind, which, options))
    caller.server.progress.nudge()
    return Answer({"id": started}, 202)
