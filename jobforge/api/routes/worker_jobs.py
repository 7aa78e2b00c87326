"""For workers without a database: what running jobs ask of the engine, through their worker.

Each question carries the lease of the job that asks. LeaseLost answers it when the job is no longer
held, and when it is of another tenant than the worker's key.
"""

from uuid import UUID

from starlette.requests import Request

from jobforge import calls
from jobforge.api import masking
from jobforge.api.caller import Caller, Calling
from jobforge.api.guard import area
from jobforge.api.pagination import Items
from jobforge.api.responses import Answer
from jobforge.api.schemas.jobs import MadeJob
from jobforge.api.schemas.worker import Addition, Asking, Children, StepChildren
from jobforge.api.schemas.workflows import NodeJob, requests_of
from jobforge.errors import LeaseLost, NotFound
from jobforge.types.jobs import State, Token
from jobforge.types.workflows import Lineage

router = area("worker")


@router.post(
    "/worker/jobs/enqueue",
    status_code=201,
    response_model=Items[MadeJob],
    summary="Make jobs for a running job",
)
async def enqueue_jobs(body: Children, caller: Caller, request: Request) -> Answer:
    """For the tenant of the job that makes them, while its lease is held."""
    token = await _token(caller, body)
    await _check_held(caller, body.worker_id, token)
    jobs = [job.request(caller.principal.actor) for job in body.jobs]
    await caller.server.payloads.check(jobs, path="jobs.{}.payload")
    jobs = await caller.fitting(token.tenant_id, jobs, await request.body())
    call = calls.enqueue_jobs(jobs).for_tenant(token.tenant_id)
    made = await caller.run_installation(call)
    return Answer({"items": masking.made_jobs(made)}, 201)


@router.post(
    "/worker/jobs/children",
    status_code=201,
    response_model=Items[MadeJob],
    summary="Make jobs as a step of a running job",
)
async def enqueue_children(body: StepChildren, caller: Caller) -> Answer:
    """The first time; after that, in later attempts too, the same jobs are answered."""
    token = await _token(caller, body)
    jobs = [job.request(caller.principal.actor) for job in body.jobs]
    await caller.server.payloads.check(jobs, path="jobs.{}.payload")
    documents = [job.to_json() for job in jobs]
    call = calls.enqueue_children(body.worker_id, token, body.name, body.index, documents)
    made = await caller.run_installation(call)
    return Answer({"items": masking.made_jobs(made)}, 201)


@router.post("/worker/jobs/parents", response_model=Lineage, summary="What a job comes from")
async def load_parents(body: Asking, caller: Caller) -> Answer:
    """The parents of a running job with what they returned, and its workflow or batch."""
    token = await _token(caller, body)
    return Answer(await caller.run_installation(calls.load_parents(body.worker_id, token)))


@router.post(
    "/worker/jobs/nodes",
    status_code=201,
    response_model=Items[NodeJob],
    summary="Add nodes to the workflow of a running job",
)
async def add_workflow_jobs(body: Addition, caller: Caller) -> Answer:
    """What comes after the job waits for them too. A node that is there is not added again."""
    token = await _token(caller, body)
    await caller.server.payloads.check(requests_of(body.nodes), path="nodes")
    nodes = [node.document(None) for node in body.nodes]
    made = await caller.run_installation(calls.add_workflow_jobs(body.worker_id, token, nodes))
    items = [{"node": node, "job_id": job_id} for node, job_id in made.items()]
    return Answer({"items": items}, 201)


async def _token(caller: Calling, body: Asking) -> Token:
    """Of the job that asks. Its lease is looked at by the call that it is for."""
    await caller.server.fleet.check(caller.principal, body.worker_id)
    token = body.job.token()
    if caller.principal.tenant_id not in {None, token.tenant_id}:
        raise LeaseLost
    return token


async def _check_held(caller: Calling, worker_id: UUID, token: Token) -> None:
    """For a call that takes no lease."""
    try:
        call = calls.get_job(token.job_id).for_tenant(token.tenant_id)
        job = (await caller.run_installation(call)).job
    except NotFound as error:
        raise LeaseLost from error
    if (job.worker_id, job.lease) != (worker_id, token.lease):
        raise LeaseLost
    if job.state not in {State.RUNNING, State.CANCELING}:
        raise LeaseLost
