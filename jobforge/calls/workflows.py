"""Calls on a tenant's workflows and batches, and calls of the jobs in them."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.json_arguments import encode_jobs
from jobforge.calls.rows import STATUSES, Rows, make_reader, read_lineage
from jobforge.errors import Json
from jobforge.types.jobs import Enqueued, JobRequest, Token
from jobforge.types.jsonb import encode
from jobforge.types.workflows import (
    BatchRequest,
    Lineage,
    MadeBatch,
    MadeWorkflow,
    NodeInfo,
    WorkflowDetail,
    WorkflowFilter,
    WorkflowInfo,
    WorkflowRequest,
    WorkflowState,
)

EVERY_WORKFLOW = WorkflowFilter()
EMPTY_BATCH = BatchRequest()

_read_workflow = make_reader(WorkflowInfo)
_read_node = make_reader(NodeInfo)


def enqueue_workflow(
    workflow: WorkflowRequest, *, tenant_id: UUID | None = None
) -> Call[MadeWorkflow]:
    """Enqueue all jobs of a workflow or none."""
    return Call(
        "select workflow_id, node, job_id from jobforge.enqueue_workflow(%s::jsonb, %s)",
        (encode(workflow.to_json(), "workflow"), tenant_id),
        _made_workflow,
    )


def get_workflow(
    workflow_id: UUID, *, limit: int = 1000, tenant_id: UUID | None = None
) -> Call[WorkflowDetail]:
    """Return a workflow with its first `limit` nodes."""
    return Call(
        "select workflow, nodes, edges from jobforge.get_workflow(%s, %s::integer, %s)",
        (workflow_id, limit, tenant_id),
        _workflow_detail,
    )


def list_workflows(
    which: WorkflowFilter = EVERY_WORKFLOW,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[WorkflowInfo]]:
    """List workflows, newest first; `before` is the last ID of the previous page."""
    return Call(
        "select workflow from jobforge.list_workflows(%s::jsonb, %s::integer, %s, %s)",
        (encode(which.to_json(), "filter"), limit, before, tenant_id),
        _workflows,
    )


def cancel_workflow(
    workflow_id: UUID, *, reason: str | None = None, tenant_id: UUID | None = None
) -> Call[WorkflowState]:
    """Return `canceling` while some of the workflow's jobs still have to be stopped."""
    return Call(
        "select jobforge.cancel_workflow(%s, %s, %s)",
        (workflow_id, reason, tenant_id),
        _workflow_state,
    )


def retry_workflow(
    workflow_id: UUID, *, from_node: str | None = None, tenant_id: UUID | None = None
) -> Call[int]:
    """Retry jobs that did not succeed, or a node and its descendants; return their number."""
    return Call(
        "select jobforge.retry_workflow(%s, %s, %s)",
        (workflow_id, from_node, tenant_id),
        rows.value,
    )


def create_batch(
    batch: BatchRequest = EMPTY_BATCH,
    jobs: Sequence[JobRequest] = (),
    *,
    tenant_id: UUID | None = None,
) -> Call[MadeBatch]:
    """Create a batch with its first jobs."""
    return Call(
        """
        select batch_id, index, job_id, status
          from jobforge.create_batch(%s::jsonb, %s::jsonb, %s)
        """,
        (encode(batch.to_json(), "batch"), encode_jobs(jobs), tenant_id),
        _made_batch,
    )


def add_to_batch(
    batch_id: UUID, jobs: Sequence[JobRequest], *, tenant_id: UUID | None = None
) -> Call[list[Enqueued]]:
    """Add jobs to a batch. Raises Conflict if the batch has finished."""
    return Call(
        "select index, job_id, status from jobforge.add_to_batch(%s, %s::jsonb, %s)",
        (batch_id, encode_jobs(jobs), tenant_id),
        rows.enqueued_jobs,
    )


def close_batch(batch_id: UUID, *, tenant_id: UUID | None = None) -> Call[WorkflowState]:
    """Close an open batch; it finishes when its jobs have finished."""
    return Call("select jobforge.close_batch(%s, %s)", (batch_id, tenant_id), _workflow_state)


def get_batch(batch_id: UUID, *, tenant_id: UUID | None = None) -> Call[WorkflowInfo]:
    """Return a batch with the number of its jobs by state."""
    return Call("select batch from jobforge.get_batch(%s, %s)", (batch_id, tenant_id), _batch)


def list_batches(
    which: WorkflowFilter = EVERY_WORKFLOW,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[WorkflowInfo]]:
    """List batches, newest first; `before` is the last ID of the previous page."""
    return Call(
        "select batch from jobforge.list_batches(%s::jsonb, %s::integer, %s, %s)",
        (encode(which.to_json(), "filter"), limit, before, tenant_id),
        _workflows,
    )


def cancel_batch(
    batch_id: UUID, *, reason: str | None = None, tenant_id: UUID | None = None
) -> Call[WorkflowState]:
    """Cancel the jobs of a batch; return `canceling` while some are still running."""
    return Call(
        "select jobforge.cancel_batch(%s, %s, %s)",
        (batch_id, reason, tenant_id),
        _workflow_state,
    )


def load_parents(worker_id: UUID, token: Token) -> Call[Lineage]:
    """Return a running job's parents and workflow. Raises LeaseLost."""
    call: Call[Lineage] = Call(
        "select parents, workflow from jobforge.load_parents(%s, %s, %s::bigint)",
        (worker_id, token.job_id, token.lease),
        _lineage,
    )
    return call.under_lease(worker_id, token)


def add_workflow_jobs(
    worker_id: UUID, token: Token, nodes: Sequence[Mapping[str, Json]]
) -> Call[dict[str, UUID]]:
    """Add nodes to the workflow of a running job; return job IDs by path. Raises LeaseLost."""
    call: Call[dict[str, UUID]] = Call(
        "select node, job_id from jobforge.add_workflow_jobs(%s, %s, %s::bigint, %s::jsonb)",
        (worker_id, token.job_id, token.lease, encode(list(nodes), "nodes")),
        _node_jobs,
    )
    return call.under_lease(worker_id, token)


def _made_workflow(rows: Rows) -> MadeWorkflow:
    # The row without a job carries the workflow's ID.
    return MadeWorkflow(rows[0][0], {node: job_id for _, node, job_id in rows if job_id})


def _node_jobs(rows: Rows) -> dict[str, UUID]:
    return dict(rows)


def _made_batch(rows: Rows) -> MadeBatch:
    jobs = sorted((row[1:] for row in rows if row[2] is not None), key=itemgetter(0))
    return MadeBatch(rows[0][0], [Enqueued(job_id, STATUSES[status]) for _, job_id, status in jobs])


def _workflows(rows: Rows) -> list[WorkflowInfo]:
    return [_read_workflow(document) for (document,) in rows]


def _batch(rows: Rows) -> WorkflowInfo:
    return _workflows(rows)[0]


def _workflow_state(rows: Rows) -> WorkflowState:
    return WorkflowState(rows[0][0])


def _workflow_detail(rows: Rows) -> WorkflowDetail:
    workflow, nodes, edges = rows[0]
    return WorkflowDetail(
        _read_workflow(workflow),
        list(map(_read_node, nodes)),
        [(parent, child) for parent, child in edges],
        workflow["result"],
        workflow["has_all_nodes"],
    )


def _lineage(rows: Rows) -> Lineage:
    parents, workflow = rows[0]
    return read_lineage({"parents": parents, "workflow": workflow})
