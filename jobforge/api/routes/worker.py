"""Routes for remote workers, which have no database connection: the worker protocol over HTTP.

The requests of running jobs are in running_jobs.py.

A worker's key may belong to one tenant. All its calls run for that tenant, so the engine finds no
jobs of other tenants and reports their leases as `lost`. A worker id is valid only for the
principal that registered it.
"""

import random
import time
from collections.abc import Iterable, Sequence
from typing import TypeVar
from uuid import UUID

import orjson
from starlette.requests import Request

from jobforge import calls
from jobforge.api.caller import Caller, CallerContext
from jobforge.api.guard import create_router
from jobforge.api.pagination import Items
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.triggers import DeclaredTriggers
from jobforge.api.schemas.worker import (
    Claim,
    ClaimedJobView,
    DeclaredDefinition,
    DeclaredDefinitions,
    HeartbeatBody,
    HeartbeatStatusView,
    HeartbeatsView,
    HeldJobsBody,
    JobCompletionBody,
    JobFailureBody,
    JobHeartbeatBody,
    JobLeaseBody,
    KnownDefinition,
    NewSteps,
    NotedJob,
    NotesBody,
    OutcomesBody,
    Partitions,
    Reap,
    ReapedJob,
    RegisteredWorker,
    Registration,
    SavedStep,
    SettledJob,
    SettledStateView,
    WorkerBody,
)
from jobforge.calls import Call
from jobforge.calls.worker import is_unreadable
from jobforge.errors import Denied, JobForgeError, Json, NotFound, TenantRequired
from jobforge.types.jobs import (
    BeatStatus,
    ClaimedJob,
    OutcomeReport,
    Settled,
    Token,
    WorkerCommand,
)

T = TypeVar("T")

router = create_router("worker")

# Poll intervals after a notification, as for a worker with a database: the notification can arrive
# before the job's rows are visible.
_PAUSES_S = (0.025, 0.125)
_POLL_S = 1.0


@router.post("/worker/register", response_model=RegisteredWorker, summary="Register a worker")
async def register(body: Registration, caller: Caller) -> JsonResponse:
    """Call it at startup, and again when a heartbeat returns `unknown`."""
    call = calls.register_worker(
        body.worker_id,
        body.queues,
        slots=body.slots,
        definitions=body.definitions,
        host=body.host,
        pid=body.pid,
        build=body.build,
        isolation=body.isolation,
        lease_s=body.lease_s,
    )
    await _run(caller, call)
    return JsonResponse({"worker_id": body.worker_id, "tenant_id": caller.principal.tenant_id})


@router.post("/worker/unregister", status_code=204, summary="Unregister a worker")
async def unregister(body: WorkerBody, caller: Caller) -> JsonResponse:
    """Call this when the worker stops. Jobs that it still holds keep their leases."""
    await _check_owner(caller, body.worker_id)
    await _run(caller, calls.unregister_worker(body.worker_id))
    return JsonResponse(status=204)


@router.post(
    "/worker/definitions",
    response_model=Items[KnownDefinition],
    summary="Register a worker's definitions",
)
async def put_definitions(body: DeclaredDefinitions, caller: Caller) -> JsonResponse:
    """Idempotent. Definitions belong to the installation: a worker of one tenant can serve
    registered definitions but cannot change them.
    """
    return JsonResponse(
        {"items": [await _put_definition(caller, each) for each in body.definitions]}
    )


@router.post("/worker/triggers", status_code=204, summary="Declare a worker's triggers")
async def declare_triggers(body: DeclaredTriggers, caller: Caller) -> JsonResponse:
    """Idempotent. Deletes triggers of the listed definitions that code declared earlier and no
    longer declares. For a worker of one tenant, * means that tenant.
    """
    declared = [each.model_dump() for each in body.declared]
    await _run(caller, calls.declare_triggers(declared, body.definitions))
    return JsonResponse(status=204)


@router.post("/worker/jobs/claim", response_model=Items[ClaimedJobView], summary="Claim jobs")
async def claim_jobs(body: Claim, caller: Caller, request: Request) -> JsonResponse:
    """Each job comes with a lease and everything needed to run it. With `wait_s`, the server waits
    up to that long for a job (long polling).
    """
    await _check_owner(caller, body.worker_id)
    if not any(body.queues.values()):
        return JsonResponse({"items": []})
    tenant_id = caller.principal.tenant_id
    call = calls.claim_jobs(
        body.worker_id,
        body.queues,
        definitions=body.definitions,
        registered=body.registered,
        tenants=None if tenant_id is None else [tenant_id],
        lease_s=body.lease_s,
    ).with_setting("synchronous_commit", "off")
    jobs = await _wait_for_jobs(caller, request, call, body)
    return JsonResponse({"items": list(map(_claimed_job_to_json, jobs))})


@router.post("/worker/jobs/heartbeat", response_model=HeartbeatsView, summary="Renew leases")
async def heartbeat_jobs(body: HeartbeatBody, caller: Caller) -> JsonResponse:
    """Renews the leases of all jobs that a worker runs. Returns which jobs to stop, and a command
    for the worker.

    `held`: the lease could not be renewed at this moment. Continue the job and send the next
    heartbeat after a second.
    """
    tokens = [job.to_token() for job in body.jobs]
    try:
        await _check_owner(caller, body.worker_id)
    except NotFound:
        # The worker was silent for so long that it was deleted, so all its leases have expired.
        lost = [{**_token_to_json(token), "status": BeatStatus.LOST} for token in tokens]
        return JsonResponse({"command": WorkerCommand.UNKNOWN, "items": lost})
    call = calls.heartbeat_jobs(
        body.worker_id,
        tokens,
        lease_s=body.lease_s,
        memory_bytes=body.memory_bytes,
        clock=body.clock,
    )
    result = await _run(caller, call)
    return JsonResponse({"command": result.command, "items": result.jobs})


@router.post("/worker/jobs/complete", response_model=Items[SettledJob], summary="Settle jobs")
async def complete_jobs(body: OutcomesBody, caller: Caller) -> JsonResponse:
    """Reports the outcomes of all attempts finished since the last call. `lost`: the lease had
    expired and nothing was recorded. `busy`: another transaction has locked the job or a row that
    the update needs; keep renewing the lease and send the outcome again soon. All other jobs are
    settled.
    """
    await _check_owner(caller, body.worker_id)
    reports = [outcome.to_outcome_report() for outcome in body.outcomes]
    return _settled_response(await _run(caller, calls.complete_jobs(body.worker_id, reports)))


@router.post(
    "/worker/jobs/notes", response_model=Items[NotedJob], summary="Record jobs' progress and logs"
)
async def note_jobs(body: NotesBody, caller: Caller) -> JsonResponse:
    """Records progress, log lines and events in order. Returns one item per lease."""
    await _check_owner(caller, body.worker_id)
    results = await _run(
        caller, calls.note_jobs(body.worker_id, [note.to_note() for note in body.notes])
    )
    items = [
        {
            "job_id": each.job_id,
            "lease": each.lease,
            "status": "lost" if each.is_lost else "ok",
        }
        for each in results
    ]
    return JsonResponse({"items": items})


@router.post("/worker/jobs/steps", response_model=Items[SavedStep], summary="Store completed steps")
async def save_steps(body: NewSteps, caller: Caller) -> JsonResponse:
    """Stores each step once; later claims of the job return it. Returns one item per step."""
    await _check_owner(caller, body.worker_id)
    steps = [each.to_step() for each in body.steps]
    saved = await _run(caller, calls.save_steps(body.worker_id, steps))
    items = [
        {
            "job_id": step.job_id,
            "lease": step.lease,
            "name": step.name,
            "index": step.index,
            "status": status,
        }
        for step, status in zip(steps, saved, strict=True)
    ]
    return JsonResponse({"items": items})


@router.post("/worker/release", response_model=Items[SettledJob], summary="Release jobs")
async def release_jobs(body: HeldJobsBody, caller: Caller) -> JsonResponse:
    """The jobs are queued again at once, and the attempt does not count. `busy`: see
    `/worker/jobs/complete`.
    """
    await _check_owner(caller, body.worker_id)
    tokens = [job.to_token() for job in body.jobs]
    return _settled_response(await _run(caller, calls.release_jobs(body.worker_id, tokens)))


@router.post("/worker/jobs/reap", response_model=Items[ReapedJob], summary="Reap expired leases")
async def reap_jobs(caller: Caller, body: Reap | None = None) -> JsonResponse:
    """Every worker calls this every few seconds; a tenant's worker reaps that tenant's jobs."""
    limit = (body or Reap()).limit
    return JsonResponse({"items": await _run(caller, calls.reap_jobs(limit=limit))})


@router.post("/worker/partitions", response_model=Partitions, summary="Create future partitions")
async def ensure_partitions(caller: Caller) -> JsonResponse:
    """Each worker calls this once an hour."""
    return JsonResponse({"created": await _run(caller, calls.ensure_partitions())})


@router.post(
    "/worker/jobs/{job_id}/heartbeat", response_model=HeartbeatStatusView, summary="Renew a lease"
)
async def heartbeat_job(job_id: UUID, body: JobHeartbeatBody, caller: Caller) -> JsonResponse:
    """`cancel`: cancellation was requested. `held`: not renewed; send another heartbeat after a
    second. 409 `lease_lost` if the worker no longer holds the job.
    """
    await _check_owner(caller, body.worker_id)
    token = _build_token(caller, job_id, body)
    call = calls.heartbeat_job(body.worker_id, token, lease_s=body.lease_s)
    return JsonResponse({"status": await _run(caller, call)})


@router.post(
    "/worker/jobs/{job_id}/complete", response_model=SettledStateView, summary="Settle a job"
)
async def complete_job(job_id: UUID, body: JobCompletionBody, caller: Caller) -> JsonResponse:
    """The outcome defaults to `succeeded`. 409 if the worker does not hold the job."""
    return await _settle_job(caller, job_id, body)


@router.post(
    "/worker/jobs/{job_id}/fail", response_model=SettledStateView, summary="Report a failure"
)
async def fail_job(job_id: UUID, body: JobFailureBody, caller: Caller) -> JsonResponse:
    """The job is retried after its backoff, or is dead. 409 if the worker does not hold the job."""
    return await _settle_job(caller, job_id, body)


async def _run(caller: CallerContext, call: Call[T]) -> T:
    """Run a call for the key's tenant, or across all tenants for a key of the installation."""
    if caller.principal.tenant_id is None:
        return await caller.run_as_actor(call)
    return await caller.run(call)


async def _check_owner(caller: CallerContext, worker_id: UUID) -> None:
    await caller.server.remote_workers.check_owner(caller.principal, worker_id)


async def _put_definition(caller: CallerContext, new: DeclaredDefinition) -> dict[str, Json]:
    identity = {"key": new.key, "version": new.version}
    if caller.principal.tenant_id is None:
        await caller.run_as_actor(calls.put_definition(new.key, new.version, new.settings))
        return {**identity, "status": "registered"}
    try:
        await caller.run_as_actor(calls.get_definition(new.key, version=new.version))
    except NotFound as error:
        raise Denied(
            f"{new.key}@{new.version} is not registered, and a worker of one tenant cannot"
            " register it",
            detail=identity,
        ) from error
    return {**identity, "status": "known"}


async def _wait_for_jobs(
    caller: CallerContext, request: Request, call: Call[list[ClaimedJob]], body: Claim
) -> Sequence[ClaimedJob]:
    notifier = caller.server.remote_workers.claim_notifier
    until = time.monotonic() + body.wait_s
    pauses = iter(_PAUSES_S)
    while True:
        jobs = await _claim_once(caller, call)
        left_s = until - time.monotonic()
        if jobs or left_s <= 0 or notifier.is_stopped:
            return jobs
        pause = next(pauses, _POLL_S * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not cryptography
        if await notifier.wait(body.queues, min(pause, left_s)):
            pauses = iter(_PAUSES_S)
        # Jobs claimed for a disconnected worker would wait until their leases expire.
        if await request.is_disconnected():
            return []


async def _claim_once(caller: CallerContext, call: Call[list[ClaimedJob]]) -> list[ClaimedJob]:
    """Run the claim; if one of its rows cannot be sent, run it again without such rows."""
    try:
        return await _run(caller, call)
    except JobForgeError as error:
        if not is_unreadable(error):
            raise
    return await _run(caller, calls.claim_readable_jobs(call))


def _claimed_job_to_json(job: ClaimedJob) -> dict[str, Json]:
    fields = job._asdict()
    del fields["started"], fields["payload_json"], fields["steps_json"]
    # Payload and steps are passed on as JSON text: parsing would lose precision of long numbers.
    steps = None if job.steps_json is None else orjson.Fragment(job.steps_json)
    payload = orjson.Fragment(job.payload_json)
    return {**fields, "started_at": job.started_at, "payload": payload, "steps": steps}


def _build_token(caller: CallerContext, job_id: UUID, body: JobLeaseBody) -> Token:
    tenant_id = body.tenant_id or caller.principal.tenant_id
    if tenant_id is None:
        raise TenantRequired("tenant_id is required: the tenant of the claimed job")
    return Token(tenant_id, job_id, body.lease)


async def _settle_job(
    caller: CallerContext, job_id: UUID, body: JobCompletionBody | JobFailureBody
) -> JsonResponse:
    await _check_owner(caller, body.worker_id)
    report: OutcomeReport = body.to_report(_build_token(caller, job_id, body), body.outcome)
    return JsonResponse({"state": await _run(caller, calls.complete_job(body.worker_id, report))})


def _settled_response(settled: Iterable[Settled]) -> JsonResponse:
    items = [
        {
            "job_id": each.job_id,
            "lease": each.lease,
            "status": each.status,
            "state": each.state,
        }
        for each in settled
    ]
    return JsonResponse({"items": items})


def _token_to_json(token: Token) -> dict[str, Json]:
    return {"job_id": token.job_id, "lease": token.lease}
