"""The running job whose code this is: its worker, and what its new jobs inherit.

A process of its own has a Door; in the loop of a worker that has no database there is a Host. What
the job's code enqueues, creates or asks goes there, for the job's own tenant. It has the job's
correlation and trace unless it says otherwise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar
from uuid import UUID

from jobforge.errors import Conflict, Denied, Json
from jobforge.sdk.enqueue_calls import batches, joined
from jobforge.sdk.options import Tenant
from jobforge.sdk.tenancy import ambient, as_uuid
from jobforge.types.current_job import CURRENT
from jobforge.types.jobs import Alike, ClaimedJob, Enqueued, JobRequest
from jobforge.types.workflows import BatchRequest, WorkflowRequest

Answer = tuple[UUID, Iterable[Enqueued]]  # the tenant, and what became of each request


class Door(Protocol):
    """Of a job's process, which has no database."""

    @property
    def tenant_id(self) -> UUID: ...

    def enqueue(self, jobs: Sequence[JobRequest]) -> list[Enqueued]: ...

    def ask(self, kind: str, data: Json) -> Json: ...


class Host(Protocol):
    """Of all jobs that run in a worker's loop."""

    async def enqueue(self, job: ClaimedJob, jobs: Sequence[JobRequest]) -> list[Enqueued]: ...

    async def ask(self, job: ClaimedJob, kind: str, data: Json) -> Json: ...


_door: Door | None = None


def set_door(door: Door | None) -> None:
    """From now on this process is inside a job; with None, it is not."""
    global _door  # noqa: PLW0603 - it is the process that is inside a job
    _door = door


def find_door() -> Door | None:
    """None outside of a job's process."""
    return _door


def enqueue_through(door: Door, jobs: Sequence[JobRequest], tenant: Tenant | None) -> Answer:
    check_own(tenant, door.tenant_id)
    return door.tenant_id, joined(door.enqueue(batch) for batch in batches(jobs))


async def enqueue_by(
    host: Host, job: ClaimedJob, jobs: Sequence[JobRequest], tenant: Tenant | None
) -> Answer:
    check_own(tenant, job.tenant_id)
    return job.tenant_id, joined([await host.enqueue(job, batch) for batch in batches(jobs)])


def check_own(tenant: Tenant | None, own: UUID) -> None:
    """Raises Denied for any tenant but the job's own, be it named or ambient."""
    wanted = ambient() if tenant is None else tenant
    if wanted is not None and as_uuid(wanted) != own:
        raise Denied("a job enqueues for its own tenant only: leave tenant out", field="tenant")


def refuse_inside_job() -> None:
    if _door is not None:
        raise Conflict(
            "a job's process has no database, so it cannot wait for other jobs or read them"
        )


def refuse_to_emit(conn: Any) -> None:  # noqa: ANN401 - a connection of whatever library, or none
    if conn is None and _door is not None:
        raise Conflict(
            "a job's process has no database: emit on a connection of its own, by conn=…, or from"
            ' an isolation="inline" job'
        )


T = TypeVar("T")
Node = Mapping[str, Json]

_CALLBACKS = ("on_success", "on_failure", "on_complete")


def here(tie: Callable[[ClaimedJob, T], T], made: T) -> T:
    """As it is tied to the job in whose loop this runs, if there is one.

    A job in a process of its own has a worker that sees to it.
    """
    job = CURRENT.get()
    return made if job is None else tie(job, made)


def flowing(job: ClaimedJob, jobs: Sequence[JobRequest]) -> Sequence[JobRequest]:
    if isinstance(jobs, Alike):
        return Alike(_tied(job, jobs.shared), jobs.payloads)
    return [_tied(job, request) for request in jobs]


def traced(job: ClaimedJob, jobs: Sequence[JobRequest]) -> Sequence[JobRequest]:
    """Jobs of a batch: the correlation is that of the batch."""
    return [_traced(job, request) for request in jobs]


def batch_by(job: ClaimedJob, batch: BatchRequest) -> BatchRequest:
    return replace(batch, **_shared(job, batch))


def workflow_by(job: ClaimedJob, workflow: WorkflowRequest) -> WorkflowRequest:
    return replace(workflow, nodes=traced_nodes(job, workflow.nodes), **_shared(job, workflow))


def traced_nodes(job: ClaimedJob, nodes: Sequence[Node]) -> Sequence[Node]:
    """Nodes of a workflow, and of those within it."""
    return [_traced_node(job, node) for node in nodes]


def _shared(job: ClaimedJob, made: BatchRequest | WorkflowRequest) -> dict[str, Json]:
    callbacks = {name: _traced_callback(job, getattr(made, name)) for name in _CALLBACKS}
    return {"correlation_id": made.correlation_id or job.correlation_id, **callbacks}


def _traced_callback(
    job: ClaimedJob, callback: JobRequest | Node | None
) -> JobRequest | Node | None:
    if callback is None or isinstance(callback, JobRequest):
        return callback and _traced(job, callback)
    return _traced_node(job, callback)


def _traced_node(job: ClaimedJob, node: Node) -> Node:
    if job.traceparent is None:
        return node
    if "workflow" not in node:
        return {"traceparent": job.traceparent, **node}
    inner = node["workflow"]
    return {**node, "workflow": {**inner, "nodes": traced_nodes(job, inner["nodes"])}}


def _tied(job: ClaimedJob, request: JobRequest) -> JobRequest:
    return _traced(job, request)._replace(
        correlation_id=request.correlation_id or job.correlation_id
    )


def _traced(job: ClaimedJob, request: JobRequest) -> JobRequest:
    return request._replace(traceparent=request.traceparent or job.traceparent)
