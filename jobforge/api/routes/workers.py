"""Workers: who runs jobs, and telling them to stop."""

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
    """All of the last day; `stale` is one that was not heard from for a minute."""
    return JsonResponse({"items": await caller.run_as_actor(calls.list_workers())})


@router.post("/workers/{worker_id}/drain", status_code=202, summary="Let a worker finish and end")
async def drain_worker(worker_id: UUID, caller: Caller) -> JsonResponse:
    """It claims no more, and ends when its jobs have."""
    await caller.run_as_actor(calls.drain_worker(worker_id))
    return JsonResponse({}, 202)


@router.post("/workers/{worker_id}/stop", status_code=202, summary="Let a worker end now")
async def stop_worker(worker_id: UUID, caller: Caller) -> JsonResponse:
    """It hands its jobs back, and ends."""
    await caller.run_as_actor(calls.stop_worker(worker_id))
    return JsonResponse({}, 202)
