"""Workflows and batches: make, look at, cancel, retry."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import Query

from jobforge import calls
from jobforge.api import masking
from jobforge.api.caller import Caller
from jobforge.api.guard import area
from jobforge.api.pagination import DEFAULT_LIMIT, Cursor, Items, Limit, Page, page, read_id
from jobforge.api.responses import Answer
from jobforge.api.schemas.base_types import Text
from jobforge.api.schemas.jobs import Cancel, MadeJob, NewJobs
from jobforge.api.schemas.workflows import (
    MadeBatch,
    MadeWorkflow,
    NewBatch,
    NewWorkflow,
    Retried,
    RetryOfWorkflow,
    Standing,
    requests_of,
)
from jobforge.types.workflows import WorkflowDetail, WorkflowFilter, WorkflowInfo

router = area("workflows")

StateName = Literal["running", "succeeded", "failed", "canceled"]
Named = Annotated[Text | None, Query(max_length=200)]
Most = Annotated[int, Query(ge=1, le=50_000, description="How many nodes at most.")]


@router.post("/workflows", status_code=201, response_model=MadeWorkflow, summary="Make a workflow")
async def create_workflow(body: NewWorkflow, caller: Caller) -> Answer:
    """All of its jobs or none; `after` has the names of nodes that have to end first."""
    await caller.server.payloads.check(requests_of(body.nodes), path="nodes")
    made = await caller.run(calls.enqueue_workflow(body.request(caller.traceparent)))
    nodes = [{"node": node, "job_id": job_id} for node, job_id in made.jobs.items()]
    return Answer({"id": made.id, "nodes": nodes}, 201)


@router.get("/workflows", response_model=Page[WorkflowInfo], summary="List workflows")
async def list_workflows(
    caller: Caller,
    name: Named = None,
    state: StateName | None = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Answer:
    """Newest first, without those that are within others."""
    which = WorkflowFilter(name, state)
    found = await caller.run(calls.list_workflows(which, limit=limit, before=read_id(cursor)))
    return Answer(page(list(map(masking.masked_workflow, found)), limit, lambda each: each.id))


@router.get("/workflows/{workflow_id}", response_model=WorkflowDetail, summary="Look at a workflow")
async def get_workflow(workflow_id: UUID, caller: Caller, limit: Most = 1000) -> Answer:
    """Its nodes with their jobs, the edges between them, and what its last nodes returned."""
    detail = await caller.run(calls.get_workflow(workflow_id, limit=limit))
    return Answer(masking.masked_detail(detail))


@router.post(
    "/workflows/{workflow_id}/cancel",
    status_code=202,
    response_model=Standing,
    summary="Cancel a workflow",
)
async def cancel_workflow(workflow_id: UUID, caller: Caller, body: Cancel | None = None) -> Answer:
    """What is left of it, those within it too. Jobs that run are asked to stop."""
    reason = None if body is None else body.reason
    return Answer(
        {"state": await caller.run(calls.cancel_workflow(workflow_id, reason=reason))}, 202
    )


@router.post("/workflows/{workflow_id}/retry", response_model=Retried, summary="Retry a workflow")
async def retry_workflow(
    workflow_id: UUID, caller: Caller, body: RetryOfWorkflow | None = None
) -> Answer:
    """Each node that is retried gets a new job; what has been stays on record."""
    call = calls.retry_workflow(workflow_id, from_node=None if body is None else body.from_node)
    return Answer({"jobs": await caller.run(call)})


@router.post("/batches", status_code=201, response_model=MadeBatch, summary="Make a batch")
async def create_batch(body: NewBatch, caller: Caller) -> Answer:
    """All of its jobs or none."""
    jobs = list(map(caller.request, body.jobs))
    await caller.server.payloads.check(jobs, path="jobs.{}.payload")
    made = await caller.run(calls.create_batch(body.request(), jobs))
    return Answer({"id": made.id, "jobs": masking.made_jobs(made.jobs)}, 201)


@router.get("/batches", response_model=Page[WorkflowInfo], summary="List batches")
async def list_batches(
    caller: Caller,
    name: Named = None,
    state: StateName | None = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Answer:
    """Newest first."""
    which = WorkflowFilter(name, state)
    found = await caller.run(calls.list_batches(which, limit=limit, before=read_id(cursor)))
    return Answer(page(list(map(masking.masked_workflow, found)), limit, lambda each: each.id))


@router.get("/batches/{batch_id}", response_model=WorkflowInfo, summary="Look at a batch")
async def get_batch(batch_id: UUID, caller: Caller) -> Answer:
    """`counts` has how many of its jobs are in which state."""
    return Answer(masking.masked_workflow(await caller.run(calls.get_batch(batch_id))))


@router.post(
    "/batches/{batch_id}/jobs",
    status_code=201,
    response_model=Items[MadeJob],
    summary="Add jobs to a batch",
)
async def add_to_batch(batch_id: UUID, body: NewJobs, caller: Caller) -> Answer:
    """All or nothing. 409 when the batch has ended."""
    jobs = list(map(caller.request, body.jobs))
    await caller.server.payloads.check(jobs, path="jobs.{}.payload")
    made = await caller.run(calls.add_to_batch(batch_id, jobs))
    return Answer({"items": masking.made_jobs(made)}, 201)


@router.post("/batches/{batch_id}/close", response_model=Standing, summary="Close a batch")
async def close_batch(batch_id: UUID, caller: Caller) -> Answer:
    """It has all its jobs, and ends with the last of them."""
    return Answer({"state": await caller.run(calls.close_batch(batch_id))})


@router.post(
    "/batches/{batch_id}/cancel",
    status_code=202,
    response_model=Standing,
    summary="Cancel a batch",
)
async def cancel_batch(batch_id: UUID, caller: Caller, body: Cancel | None = None) -> Answer:
    """What is left of it; it is closed, too."""
    reason = None if body is None else body.reason
    return Answer({"state": await caller.run(calls.cancel_batch(batch_id, reason=reason))}, 202)
