"""Routes of workflows and batches: create, view, cancel and retry."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import Query

from jobforge import calls
from jobforge.api import masking
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.pagination import Items, Page, Paging
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.base_types import NulFreeText
from jobforge.api.schemas.jobs import CancelBody, CreatedJobView, NewJobs, created_job_to_json
from jobforge.api.schemas.workflows import (
    CreatedBatchView,
    CreatedWorkflowView,
    NewBatch,
    NewWorkflow,
    WorkflowRetryBody,
    WorkflowRetryResult,
    WorkflowStateView,
    list_job_requests,
)
from jobforge.types.workflows import WorkflowDetail, WorkflowFilter, WorkflowInfo

router = create_router("workflows")

WorkflowStateName = Literal["running", "succeeded", "failed", "canceled"]
WorkflowNameFilter = Annotated[NulFreeText | None, Query(max_length=200)]
NodeLimit = Annotated[int, Query(ge=1, le=50_000, description="Maximum number of nodes.")]


@router.post(
    "/workflows", status_code=201, response_model=CreatedWorkflowView, summary="Create a workflow"
)
async def create_workflow(body: NewWorkflow, caller: Caller) -> JsonResponse:
    """Creates all jobs or none. `after` lists the names of nodes that must finish first."""
    await caller.server.payload_checker.check(list_job_requests(body.nodes), path="nodes")
    created = await caller.run(calls.enqueue_workflow(body.to_request(caller.traceparent)))
    nodes = [{"node": node, "job_id": job_id} for node, job_id in created.jobs.items()]
    return JsonResponse({"id": created.id, "nodes": nodes}, 201)


@router.get("/workflows", response_model=Page[WorkflowInfo], summary="List workflows")
async def list_workflows(
    caller: Caller,
    page: Paging,
    name: WorkflowNameFilter = None,
    state: WorkflowStateName | None = None,
) -> JsonResponse:
    """Returns the workflows, newest first, without nested workflows."""
    which = WorkflowFilter(name, state)
    found = await caller.run(calls.list_workflows(which, limit=page.limit, before=page.decode_id()))
    return page.respond(list(map(masking.mask_workflow, found)))


@router.get("/workflows/{workflow_id}", response_model=WorkflowDetail, summary="Get a workflow")
async def get_workflow(workflow_id: UUID, caller: Caller, limit: NodeLimit = 1000) -> JsonResponse:
    """Returns the nodes with their jobs, the edges between them and the last nodes' results."""
    detail = await caller.run(calls.get_workflow(workflow_id, limit=limit))
    return JsonResponse(masking.mask_workflow_detail(detail))


@router.post(
    "/workflows/{workflow_id}/cancel",
    status_code=202,
    response_model=WorkflowStateView,
    summary="Cancel a workflow",
)
async def cancel_workflow(
    workflow_id: UUID, caller: Caller, body: CancelBody | None = None
) -> JsonResponse:
    """Cancels unfinished jobs, also in nested workflows. Running jobs are asked to stop."""
    reason = None if body is None else body.reason
    return JsonResponse(
        {"state": await caller.run(calls.cancel_workflow(workflow_id, reason=reason))}, 202
    )


@router.post(
    "/workflows/{workflow_id}/retry", response_model=WorkflowRetryResult, summary="Retry a workflow"
)
async def retry_workflow(
    workflow_id: UUID, caller: Caller, body: WorkflowRetryBody | None = None
) -> JsonResponse:
    """Creates a new job for each retried node. The old jobs remain in the history."""
    call = calls.retry_workflow(workflow_id, from_node=None if body is None else body.from_node)
    return JsonResponse({"jobs": await caller.run(call)})


@router.post("/batches", status_code=201, response_model=CreatedBatchView, summary="Create a batch")
async def create_batch(body: NewBatch, caller: Caller) -> JsonResponse:
    """Creates all jobs or none."""
    jobs = list(map(caller.to_job_request, body.jobs))
    await caller.server.payload_checker.check(jobs, path="jobs.{}.payload")
    created = await caller.run(calls.create_batch(body.to_request(), jobs))
    return JsonResponse(
        {"id": created.id, "jobs": list(map(created_job_to_json, created.jobs))}, 201
    )


@router.get("/batches", response_model=Page[WorkflowInfo], summary="List batches")
async def list_batches(
    caller: Caller,
    page: Paging,
    name: WorkflowNameFilter = None,
    state: WorkflowStateName | None = None,
) -> JsonResponse:
    """Newest first."""
    which = WorkflowFilter(name, state)
    found = await caller.run(calls.list_batches(which, limit=page.limit, before=page.decode_id()))
    return page.respond(list(map(masking.mask_workflow, found)))


@router.get("/batches/{batch_id}", response_model=WorkflowInfo, summary="Get a batch")
async def get_batch(batch_id: UUID, caller: Caller) -> JsonResponse:
    """`counts` is the number of jobs by state."""
    return JsonResponse(masking.mask_workflow(await caller.run(calls.get_batch(batch_id))))


@router.post(
    "/batches/{batch_id}/jobs",
    status_code=201,
    response_model=Items[CreatedJobView],
    summary="Add jobs to a batch",
)
async def add_to_batch(batch_id: UUID, body: NewJobs, caller: Caller) -> JsonResponse:
    """Adds all jobs or none. Fails with 409 if the batch has finished."""
    jobs = list(map(caller.to_job_request, body.jobs))
    await caller.server.payload_checker.check(jobs, path="jobs.{}.payload")
    created = await caller.run(calls.add_to_batch(batch_id, jobs))
    return JsonResponse({"items": list(map(created_job_to_json, created))}, 201)


@router.post("/batches/{batch_id}/close", response_model=WorkflowStateView, summary="Close a batch")
async def close_batch(batch_id: UUID, caller: Caller) -> JsonResponse:
    """No more jobs can be added; the batch finishes with its last job."""
    return JsonResponse({"state": await caller.run(calls.close_batch(batch_id))})


@router.post(
    "/batches/{batch_id}/cancel",
    status_code=202,
    response_model=WorkflowStateView,
    summary="Cancel a batch",
)
async def cancel_batch(
    batch_id: UUID, caller: Caller, body: CancelBody | None = None
) -> JsonResponse:
    """Cancels all unfinished jobs and closes the batch."""
    reason = None if body is None else body.reason
    return JsonResponse(
        {"state": await caller.run(calls.cancel_batch(batch_id, reason=reason))}, 202
    )
