"""What the jobs that a job creates inherit from it: correlation ID and traceparent.

Fields that a new job sets itself are kept, so inheriting twice changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jobforge.errors import Json
from jobforge.types.jobs import ClaimedJob, JobRequest, UniformJobs
from jobforge.types.workflows import BatchRequest, WorkflowRequest

NodeDocument = Mapping[str, Json]

_CALLBACKS = ("on_success", "on_failure", "on_complete")


def inherit_correlation(job: ClaimedJob, jobs: Sequence[JobRequest]) -> Sequence[JobRequest]:
    if isinstance(jobs, UniformJobs):
        return UniformJobs(_inherit_correlation(job, jobs.template), jobs.payloads)
    return [_inherit_correlation(job, request) for request in jobs]


def inherit_trace(job: ClaimedJob, jobs: Sequence[JobRequest]) -> Sequence[JobRequest]:
    """Add the job's traceparent to jobs of a batch, which has its own correlation ID."""
    return [_inherit_trace(job, request) for request in jobs]


def inherit_into_batch(job: ClaimedJob, batch: BatchRequest) -> BatchRequest:
    return replace(batch, **_inherit_fields(job, batch))


def inherit_into_workflow(job: ClaimedJob, workflow: WorkflowRequest) -> WorkflowRequest:
    return replace(
        workflow,
        nodes=inherit_trace_in_nodes(job, workflow.nodes),
        **_inherit_fields(job, workflow),
    )


def inherit_trace_in_nodes(
    job: ClaimedJob, nodes: Sequence[NodeDocument]
) -> Sequence[NodeDocument]:
    """Add the job's traceparent to workflow nodes, including those of inner workflows."""
    return [_inherit_trace_in_node(job, node) for node in nodes]


def _inherit_fields(job: ClaimedJob, request: BatchRequest | WorkflowRequest) -> dict[str, Json]:
    callbacks = {
        name: _inherit_trace_in_callback(job, getattr(request, name)) for name in _CALLBACKS
    }
    return {"correlation_id": request.correlation_id or job.correlation_id, **callbacks}


def _inherit_trace_in_callback(
    job: ClaimedJob, callback: JobRequest | NodeDocument | None
) -> JobRequest | NodeDocument | None:
    if callback is None or isinstance(callback, JobRequest):
        return callback and _inherit_trace(job, callback)
    return _inherit_trace_in_node(job, callback)


def _inherit_trace_in_node(job: ClaimedJob, node: NodeDocument) -> NodeDocument:
    if job.traceparent is None:
        return node
    if "workflow" not in node:
        return {"traceparent": job.traceparent, **node}
    inner = node["workflow"]
    return {**node, "workflow": {**inner, "nodes": inherit_trace_in_nodes(job, inner["nodes"])}}


def _inherit_correlation(job: ClaimedJob, request: JobRequest) -> JobRequest:
    return _inherit_trace(job, request)._replace(
        correlation_id=request.correlation_id or job.correlation_id
    )


def _inherit_trace(job: ClaimedJob, request: JobRequest) -> JobRequest:
    return request._replace(traceparent=request.traceparent or job.traceparent)
