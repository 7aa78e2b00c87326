"""Calls on a tenant's workflows and batches, and calls of the jobs in them."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from uuid import UUID

from jobforge.calls.call import Call, JsonArgument, build_call
from jobforge.calls.json_arguments import encode_jobs
from jobforge.calls.results import (
    ENQUEUED_JOBS,
    STATUSES,
    Result,
    Rows,
    document,
    documents,
    enqueued_from_json,
    json_columns,
    read_document,
    tuples,
    value,
)
from jobforge.errors import Json
from jobforge.types.jobs import Enqueued, JobRequest, Token
from jobforge.types.workflows import (
    BatchRequest,
    Lineage,
    MadeBatch,
    MadeWorkflow,
    WorkflowDetail,
    WorkflowFilter,
    WorkflowInfo,
    WorkflowRequest,
    WorkflowState,
)

EVERY_WORKFLOW = WorkflowFilter()
EMPTY_BATCH = BatchRequest()


def enqueue_workflow(
    workflow: WorkflowRequest, *, tenant_id: UUID | None = None
) -> Call[MadeWorkflow]:
    """Enqueue all jobs of a workflow or none."""
    return build_call("enqueue_workflow", _MADE_WORKFLOW, workflow=workflow, tenant_id=tenant_id)


def get_workflow(
    workflow_id: UUID, *, limit: int = 1000, tenant_id: UUID | None = None
) -> Call[WorkflowDetail]:
    """Return a workflow with its first `limit` nodes."""
    return build_call(
        "get_workflow", _WORKFLOW_DETAIL, id=workflow_id, limit=limit, tenant_id=tenant_id
    )


def list_workflows(
    which: WorkflowFilter = EVERY_WORKFLOW,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[WorkflowInfo]]:
    """List workflows, newest first; `before` is the last ID of the previous page."""
    return build_call(
        "list_workflows",
        documents(WorkflowInfo, "workflow"),
        filter=which,
        limit=limit,
        before=before,
        tenant_id=tenant_id,
    )


def cancel_workflow(
    workflow_id: UUID, *, reason: str | None = None, tenant_id: UUID | None = None
) -> Call[WorkflowState]:
    """Cancel a workflow. Returns `canceling` while workers still have to stop some of its jobs."""
    return build_call(
        "cancel_workflow",
        value(WorkflowState, "state"),
        id=workflow_id,
        reason=reason,
        tenant_id=tenant_id,
    )


def retry_workflow(
    workflow_id: UUID, *, from_node: str | None = None, tenant_id: UUID | None = None
) -> Call[int]:
    """Retry jobs that did not succeed, or a node and its descendants. Returns their number."""
    arguments = {"id": workflow_id, "from": from_node, "tenant_id": tenant_id}
    return Call("retry_workflow", arguments, value(int, "jobs"))


def create_batch(
    batch: BatchRequest = EMPTY_BATCH,
    jobs: Sequence[JobRequest] = (),
    *,
    tenant_id: UUID | None = None,
) -> Call[MadeBatch]:
    """Create a batch with its first jobs."""
    return build_call(
        "create_batch", _MADE_BATCH, batch=batch, jobs=encode_jobs(jobs), tenant_id=tenant_id
    )


def add_to_batch(
    batch_id: UUID, jobs: Sequence[JobRequest], *, tenant_id: UUID | None = None
) -> Call[list[Enqueued]]:
    """Add jobs to a batch. Raises Conflict if the batch has finished."""
    return build_call(
        "add_to_batch", ENQUEUED_JOBS, id=batch_id, jobs=encode_jobs(jobs), tenant_id=tenant_id
    )


def close_batch(batch_id: UUID, *, tenant_id: UUID | None = None) -> Call[WorkflowState]:
    """Close an open batch; it finishes when its jobs have finished."""
    return build_call(
        "close_batch", value(WorkflowState, "state"), id=batch_id, tenant_id=tenant_id
    )


def get_batch(batch_id: UUID, *, tenant_id: UUID | None = None) -> Call[WorkflowInfo]:
    """Return a batch with the number of its jobs by state."""
    return build_call(
        "get_batch", document(WorkflowInfo, "batch"), id=batch_id, tenant_id=tenant_id
    )


def list_batches(
    which: WorkflowFilter = EVERY_WORKFLOW,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[WorkflowInfo]]:
    """List batches, newest first; `before` is the last ID of the previous page."""
    return build_call(
        "list_batches",
        documents(WorkflowInfo, "batch"),
        filter=which,
        limit=limit,
        before=before,
        tenant_id=tenant_id,
    )


def cancel_batch(
    batch_id: UUID, *, reason: str | None = None, tenant_id: UUID | None = None
) -> Call[WorkflowState]:
    """Cancel the jobs of a batch. Returns `canceling` while some are still running."""
    return build_call(
        "cancel_batch",
        value(WorkflowState, "state"),
        id=batch_id,
        reason=reason,
        tenant_id=tenant_id,
    )


def load_parents(worker_id: UUID, token: Token) -> Call[Lineage]:
    """Return a running job's parents and workflow. Raises LeaseLost."""
    call: Call[Lineage] = build_call(
        "load_parents", _LINEAGE, worker_id=worker_id, job_id=token.job_id, lease=token.lease
    )
    return call.under_lease(worker_id, token)


def add_workflow_jobs(
    worker_id: UUID, token: Token, nodes: Sequence[Mapping[str, Json]]
) -> Call[dict[str, UUID]]:
    """Add nodes to the workflow of a running job. Returns job IDs by path. Raises LeaseLost."""
    call: Call[dict[str, UUID]] = build_call(
        "add_workflow_jobs",
        tuples(_job_ids, node=str, job_id=UUID),
        worker_id=worker_id,
        job_id=token.job_id,
        lease=token.lease,
        nodes=JsonArgument.from_value(list(nodes), "nodes"),
    )
    return call.under_lease(worker_id, token)


def _workflow_from_rows(rows: Rows) -> MadeWorkflow:
    # The row without a job carries the workflow's ID.
    return MadeWorkflow(rows[0][0], {node: job_id for _, node, job_id in rows if job_id})


def _workflow_from_json(response: Json) -> MadeWorkflow:
    jobs = {each["node"]: UUID(each["job_id"]) for each in response["nodes"]}
    return MadeWorkflow(UUID(response["id"]), jobs)


def _batch_from_rows(rows: Rows) -> MadeBatch:
    jobs = sorted((row[1:] for row in rows if row[2] is not None), key=itemgetter(0))
    return MadeBatch(rows[0][0], [Enqueued(job_id, STATUSES[status]) for _, job_id, status in jobs])


def _batch_from_json(response: Json) -> MadeBatch:
    return MadeBatch(UUID(response["id"]), list(map(enqueued_from_json, response["jobs"])))


def _workflow_detail(document: Json) -> WorkflowDetail:
    # In SQL, result and has_all_nodes are members of the workflow; over HTTP, next to it.
    return read_document(WorkflowDetail, {**document["workflow"], **document})


def read_lineage(document: Json) -> Lineage:
    """Read the parents and the workflow of a job from JSON."""
    return read_document(Lineage, document)


def _job_ids(rows: Rows) -> dict[str, UUID]:
    return dict(rows)


_MADE_WORKFLOW = Result("workflow_id, node, job_id", _workflow_from_rows, _workflow_from_json)

_MADE_BATCH = Result("batch_id, index, job_id, status", _batch_from_rows, _batch_from_json)

_WORKFLOW_DETAIL = json_columns(_workflow_detail, "workflow", "nodes", "edges")

_LINEAGE = json_columns(read_lineage, "parents", "workflow")
