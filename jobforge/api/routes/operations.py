"""Routes of operations: bulk actions on all jobs that match a filter, run in the background."""

from uuid import UUID

from pydantic import BaseModel

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.pagination import Page, Paging
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.operations import (
    NewOperation,
    OperationCount,
    OperationCountBody,
    OperationId,
)
from jobforge.types.operations import Operation, OperationState

router = create_router("operations")


class OperationStateView(BaseModel):
    state: OperationState


@router.post(
    "/operations", status_code=202, response_model=OperationId, summary="Start an operation"
)
async def start_operation(body: NewOperation, caller: Caller) -> JsonResponse:
    """`cancel`, `retry`, `redrive` or `discard` all jobs that match. The operation continues if
    this server stops; get it to see its progress.
    """
    started = await caller.run(
        calls.start_operation(body.kind, body.filter.to_job_filter(), body.to_options())
    )
    caller.server.operations_loop.wake()
    return JsonResponse({"id": started}, 202)


@router.post(
    "/operations/count",
    response_model=OperationCount,
    summary="Count an operation's jobs",
)
async def count_jobs(body: OperationCountBody, caller: Caller) -> JsonResponse:
    """Counts the jobs and changes nothing. A count of 100,000 means 100,000 or more."""
    return JsonResponse(
        {"jobs": await caller.run(calls.count_jobs(body.kind, body.filter.to_job_filter()))}
    )


@router.get("/operations", response_model=Page[Operation], summary="List operations")
async def list_operations(caller: Caller, page: Paging) -> JsonResponse:
    """Newest first."""
    found = await caller.run(calls.list_operations(limit=page.limit, before=page.decode_id()))
    return page.respond(found)


@router.get("/operations/{operation_id}", response_model=Operation, summary="Get an operation")
async def get_operation(operation_id: UUID, caller: Caller) -> JsonResponse:
    """Use it to follow the progress of the operation."""
    return JsonResponse(await caller.run(calls.get_operation(operation_id)))


@router.post(
    "/operations/{operation_id}/cancel",
    response_model=OperationStateView,
    summary="Cancel an operation",
)
async def cancel_operation(operation_id: UUID, caller: Caller) -> JsonResponse:
    """Stops the operation. Changes that it has already made to jobs remain."""
    return JsonResponse({"state": await caller.run(calls.cancel_operation(operation_id))})
