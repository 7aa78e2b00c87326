"""Routes for remote workers: requests of running jobs.

Each request carries the lease of its job. It fails with LeaseLost if the worker no longer holds the
job, or if the job belongs to another tenant than the worker's key.
"""

from uuid import UUID

from starlette.requests import Request

from jobforge import calls
from jobforge.api.caller import Caller, CallerContext
from jobforge.api.guard import create_router
from jobforge.api.pagination import Items
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.jobs import CreatedJobView, created_job_to_json
from jobforge.api.schemas.worker import (
    AddedNodesBody,
    ChildJobsBody,
    RunningJobBody,
    StepChildJobsBody,
)
from jobforge.api.schemas.workflows import NodeJob, list_job_requests
from jobforge.errors import LeaseLost, NotFound
from jobforge.types.jobs import State, Token
from jobforge.types.workflows import Lineage

router = create_router("worker")


@router.post(
    "/worker/jobs/enqueue",
    status_code=201,
    response_model=Items[CreatedJobView],
    summary="Create jobs from a running job",
)
async def enqueue_jobs(body: ChildJobsBody, caller: Caller, request: Request) -> JsonResponse:
    """The jobs belong to the tenant of the running job, whose lease must be held."""
    token = await _check_token(caller, body)
    await _check_held(caller, body.worker_id, token)
    jobs = [job.to_job_request(caller.principal.actor) for job in body.jobs]
    await caller.server.payload_checker.check(jobs, path="jobs.{}.payload")
    jobs = await caller.offload_large_payloads(token.tenant_id, jobs, await request.body())
    call = calls.enqueue_jobs(jobs).for_tenant(token.tenant_id)
    created = await caller.run_as_actor(call)
    return JsonResponse({"items": list(map(created_job_to_json, created))}, 201)


@router.post(
    "/worker/jobs/children",
    status_code=201,
    response_model=Items[CreatedJobView],
    summary="Create jobs as a step",
)
async def enqueue_children(body: StepChildJobsBody, caller: Caller) -> JsonResponse:
    """Creates the jobs once. Repeated requests, also in later attempts, return the same jobs."""
    token = await _check_token(caller, body)
    jobs = [job.to_job_request(caller.principal.actor) for job in body.jobs]
    await caller.server.payload_checker.check(jobs, path="jobs.{}.payload")
    documents = [job.to_json() for job in jobs]
    call = calls.enqueue_children(body.worker_id, token, body.name, body.index, documents)
    created = await caller.run_as_actor(call)
    return JsonResponse({"items": list(map(created_job_to_json, created))}, 201)


@router.post("/worker/jobs/parents", response_model=Lineage, summary="Get a running job's parents")
async def load_parents(body: RunningJobBody, caller: Caller) -> JsonResponse:
    """Returns the parents of a running job with their results, and its workflow or batch."""
    token = await _check_token(caller, body)
    return JsonResponse(await caller.run_as_actor(calls.load_parents(body.worker_id, token)))


@router.post(
    "/worker/jobs/nodes",
    status_code=201,
    response_model=Items[NodeJob],
    summary="Add nodes to a running workflow",
)
async def add_workflow_jobs(body: AddedNodesBody, caller: Caller) -> JsonResponse:
    """Nodes that depend on the running job also wait for the added nodes. Idempotent."""
    token = await _check_token(caller, body)
    await caller.server.payload_checker.check(list_job_requests(body.nodes), path="nodes")
    nodes = [node.to_document(None) for node in body.nodes]
    created = await caller.run_as_actor(calls.add_workflow_jobs(body.worker_id, token, nodes))
    items = [{"node": node, "job_id": job_id} for node, job_id in created.items()]
    return JsonResponse({"items": items}, 201)


async def _check_token(caller: CallerContext, body: RunningJobBody) -> Token:
    """Return the job's token after checking worker and tenant; the engine call checks the lease."""
    await caller.server.remote_workers.check_owner(caller.principal, body.worker_id)
    token = body.job.to_token()
    if caller.principal.tenant_id not in {None, token.tenant_id}:
        raise LeaseLost
    return token


async def _check_held(caller: CallerContext, worker_id: UUID, token: Token) -> None:
    """Check the lease for an engine call that does not; raise LeaseLost."""
    try:
        call = calls.get_job(token.job_id).for_tenant(token.tenant_id)
        job = (await caller.run_as_actor(call)).job
    except NotFound as error:
        raise LeaseLost from error
    if (job.worker_id, job.lease) != (worker_id, token.lease):
        raise LeaseLost
    if job.state not in {State.RUNNING, State.CANCELING}:
        raise LeaseLost
