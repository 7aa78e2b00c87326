"""What a running job makes is of its correlation and its trace, unless it says otherwise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from jobforge.errors import Json
from jobforge.types.current_job import CURRENT
from jobforge.types.jobs import Alike, ClaimedJob, JobRequest
from jobforge.types.workflows import BatchRequest, WorkflowRequest

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
