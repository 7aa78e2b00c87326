"""Operations: something done to every job that matches a filter, in the background."""

from uuid import UUID

from pydantic import BaseModel

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import area
from jobforge.api.pagination import DEFAULT_LIMIT, Cursor, Limit, Page, page, read_id
from jobforge.api.responses import Answer
from jobforge.api.schemas.operations import Counted, Counting, NewOperation, OperationId
from jobforge.types.operations import Operation, OperationState

router = area("operations")


class Standing(BaseModel):
    state: OperationState


@router.post(
    "/operations", status_code=202, response_model=OperationId, summary="Start an operation"
)
async def start_operation(body: NewOperation, caller: Caller) -> Answer:
    """`cancel`, `retry`, `redrive` or `discard` of everything that matches. It goes on whatever
    happens to this server; look at it to see how far it is."""
    started = await caller.run(
        calls.start_operation(body.kind, body.filter.filter(), body.options())
    )
    caller.server.progress.nudge()
    return Answer({"id": started}, 202)


@router.post(
    "/operations/count", response_model=Counted, summary="Count what an operation would act on"
)
async def count_jobs(body: Counting, caller: Caller) -> Answer:
    """Changes nothing. 100,000 is that many or more."""
    return Answer({"jobs": await caller.run(calls.count_jobs(body.kind, body.filter.filter()))})


@router.get("/operations", response_model=Page[Operation], summary="List operations")
async def list_operations(
    caller: Caller, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Answer:
    """Newest first."""
    found = await caller.run(calls.list_operations(limit=limit, before=read_id(cursor)))
    return Answer(page(found, limit, lambda operation: operation.id))


@router.get("/operations/{operation_id}", response_model=Operation, summary="Look at an operation")
async def get_operation(operation_id: UUID, caller: Caller) -> Answer:
    return Answer(await caller.run(calls.get_operation(operation_id)))


@router.post(
    "/operations/{operation_id}/cancel", response_model=Standing, summary="Stop an operation"
)
async def cancel_operation(operation_id: UUID, caller: Caller) -> Answer:
    """What it did already stays."""
    return Answer({"state": await caller.run(calls.cancel_operation(operation_id))})
