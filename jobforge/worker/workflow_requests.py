"""Translate running jobs' workflow and batch requests into calls.

Each request is one call, under the lease of the job that sends it.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.calls.results import Result, json_columns
from jobforge.errors import Invalid, Json
from jobforge.sdk.call_context import (
    inherit_into_batch,
    inherit_into_workflow,
    inherit_trace,
    inherit_trace_in_nodes,
)
from jobforge.types.jobs import ClaimedJob, JobRequest
from jobforge.types.workflows import BatchRequest, WorkflowRequest

T = TypeVar("T")

_PARENTS: Result[Json] = json_columns(dict, "parents", "workflow")  # as JSON


def build_request_call(worker_id: UUID, job: ClaimedJob, kind: str, data: Json) -> Call[Json]:
    """Return the call for the request; its result is JSON. Raises Invalid for an unknown kind."""
    match kind:
        case "parents":
            return calls.load_parents(worker_id, job.token)._replace(result=_PARENTS)
        case "add_nodes":
            add_call = calls.add_workflow_jobs(
                worker_id, job.token, inherit_trace_in_nodes(job, data)
            )
            return _decode_as_json(add_call, lambda jobs: list(map(str, jobs.values())))
    call: Call[Json]
    match kind:
        case "enqueue_workflow":
            request = inherit_into_workflow(job, WorkflowRequest(**data))
            call = _decode_as_json(calls.enqueue_workflow(request), _workflow_to_json)
        case "create_batch":
            batch = inherit_into_batch(job, BatchRequest(**data["batch"]))
            create_call = calls.create_batch(batch, _parse_job_requests(job, data["jobs"]))
            call = _decode_as_json(create_call, lambda batch: {"id": str(batch.id)})
        case "add_to_batch":
            join_call = calls.add_to_batch(UUID(data["id"]), _parse_job_requests(job, data["jobs"]))
            call = _decode_as_json(join_call, lambda jobs: [str(each.job_id) for each in jobs])
        case "close_batch":
            call = _decode_as_json(calls.close_batch(UUID(data["id"])), str)
        case _:
            raise Invalid(f"Unknown request kind '{kind}'", field="kind")
    return call.under_lease(worker_id, job.token)


def _decode_as_json(call: Call[T], to_json: Callable[[T], Json]) -> Call[Json]:
    return call.map_result(to_json)


def _workflow_to_json(workflow: Any) -> Json:  # noqa: ANN401 - a MadeWorkflow
    jobs = {path: str(job_id) for path, job_id in workflow.jobs.items()}
    return {"id": str(workflow.id), "jobs": jobs}


def _parse_job_requests(job: ClaimedJob, documents: list[dict[str, Json]]) -> Sequence[JobRequest]:
    return inherit_trace(job, [JobRequest(**document) for document in documents])
