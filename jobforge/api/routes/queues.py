"""Routes of queues: backlog, limits and pauses."""

from typing import Annotated

from fastapi import Path, Query

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.pagination import Items
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.base_types import QueueName
from jobforge.api.schemas.operator_settings import LimitsBody
from jobforge.types.definitions import QueueInfo, SlotHolder

router = create_router("queues")

QueueNamePath = Annotated[QueueName, Path()]


@router.get("/queues", response_model=Items[QueueInfo], summary="List queues")
async def list_queues(caller: Caller) -> JsonResponse:
    """Counts the tenant's jobs or, for a super admin without a tenant, the jobs of all tenants."""
    return JsonResponse({"items": await caller.run_for_tenant_or_all(calls.list_queues())})


@router.get(
    "/queues/{queue}/holders",
    response_model=Items[SlotHolder],
    summary="List a queue's running jobs",
)
async def list_holders(
    queue: QueueNamePath, caller: Caller, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> JsonResponse:
    """Returns the running jobs of all tenants in the queue, the longest-running first."""
    return JsonResponse(
        {"items": await caller.run_as_actor(calls.list_holders(queue, limit=limit))}
    )


@router.patch("/queues/{queue}", status_code=204, summary="Set a queue's limits")
async def put_queue(queue: QueueNamePath, body: LimitsBody, caller: Caller) -> JsonResponse:
    """Omitted fields are unchanged; null removes a limit."""
    await caller.run_as_actor(calls.put_queue(queue, body.given_fields()))
    return JsonResponse(status=204)


@router.post("/queues/{queue}/pause", status_code=204, summary="Pause a queue")
async def pause_queue(queue: QueueNamePath, caller: Caller) -> JsonResponse:
    """Queued jobs wait; new jobs can still be created."""
    await caller.run_as_actor(calls.pause_queue(queue))
    return JsonResponse(status=204)


@router.post("/queues/{queue}/resume", status_code=204, summary="Resume a queue")
async def resume_queue(queue: QueueNamePath, caller: Caller) -> JsonResponse:
    """Workers claim the queue's jobs again."""
    await caller.run_as_actor(calls.resume_queue(queue))
    return JsonResponse(status=204)
