"""Routes of workers: list, drain and stop."""

from uuid import UUID

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.pagination import Items
from jobforge.api.responses import JsonResponse
from jobforge.types.workers import WorkerInfo

router = create_router("workers")


@router.get("/workers", response_model=Items[WorkerInfo], summary="List workers")
async def list_workers(caller: Caller) -> JsonResponse:
    """Returns all workers of the last day. `stale` means that the worker has sent no heartbeat for
    the length of its leases.
    """
    return JsonResponse({"items": await caller.run_as_actor(calls.list_workers())})


@router.post("/workers/{worker_id}/drain", status_code=202, summary="Drain a worker")
async def drain_worker(worker_id: UUID, caller: Caller) -> JsonResponse:
    """The worker claims no more jobs and exits when its running jobs have finished."""
    await caller.run_as_actor(calls.drain_worker(worker_id))
    return JsonResponse({}, 202)


@router.post("/workers/{worker_id}/stop", status_code=202, summary="Stop a worker")
async def stop_worker(worker_id: UUID, caller: Caller) -> JsonResponse:
    """The worker releases its jobs to the queue and exits."""
    await caller.run_as_actor(calls.stop_worker(worker_id))
    return JsonResponse({}, 202)
