"""Calls on bulk operations: actions on a tenant's jobs that match a filter, done in steps."""

from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.rows import Rows
from jobforge.types.jobs import JobFilter
from jobforge.types.jsonb import encode
from jobforge.types.operations import (
    Operation,
    OperationKind,
    OperationOptions,
    OperationState,
    OperationStep,
)

NO_OPTIONS = OperationOptions()


def count_jobs(
    kind: OperationKind, which: JobFilter, *, tenant_id: UUID | None = None
) -> Call[int]:
    """Return how many jobs an operation would affect now; the count stops at 100,000."""
    return Call(
        "select jobforge.count_jobs(%s, %s::jsonb, %s)",
        (kind, encode(which.to_json(), "filter"), tenant_id),
        rows.value,
    )


def start_operation(
    kind: OperationKind,
    which: JobFilter,
    options: OperationOptions = NO_OPTIONS,
    *,
    tenant_id: UUID | None = None,
) -> Call[UUID]:
    """Start an operation and return its ID; advance_operations does the work."""
    return Call(
        "select jobforge.start_operation(%s, %s::jsonb, %s::jsonb, %s)",
        (
            kind,
            encode(which.to_json(), "filter"),
            encode(options.to_json(), "options"),
            tenant_id,
        ),
        rows.value,
    )


def get_operation(operation_id: UUID, *, tenant_id: UUID | None = None) -> Call[Operation]:
    """Return an operation and its progress. Raises NotFound."""
    return Call(
        """
        select id, kind, state, filter, options, matched, done, skipped, reason, created_by,
               created_at, started_at, finished_at
          from jobforge.get_operation(%s, %s)
        """,
        (operation_id, tenant_id),
        _operation,
    )


def list_operations(
    *, limit: int = 50, before: UUID | None = None, tenant_id: UUID | None = None
) -> Call[list[Operation]]:
    """List operations, newest first; `before` is the last ID of the previous page."""
    return Call(
        """
        select id, kind, state, filter, options, matched, done, skipped, reason, created_by,
               created_at, started_at, finished_at
          from jobforge.list_operations(%s::integer, %s, %s)
        """,
        (limit, before, tenant_id),
        _operations,
    )


def cancel_operation(operation_id: UUID, *, tenant_id: UUID | None = None) -> Call[OperationState]:
    """Cancel an operation; completed steps are kept. Raises Conflict if it has finished."""
    return Call(
        "select jobforge.cancel_operation(%s, %s)",
        (operation_id, tenant_id),
        _operation_state,
    )


def advance_operations(*, limit: int = 1000) -> Call[OperationStep | None]:
    """Run one step, of up to `limit` jobs, of an operation that is due; None if none is due."""
    return Call(
        """
        select tenant_id, operation_id, state, jobs
          from jobforge.advance_operations(%s::integer)
        """,
        (limit,),
        _operation_step,
    )


def _operations(rows: Rows) -> list[Operation]:
    return [
        Operation(operation_id, OperationKind(kind), OperationState(state), *others)
        for operation_id, kind, state, *others in rows
    ]


def _operation(rows: Rows) -> Operation:
    return _operations(rows)[0]


def _operation_state(rows: Rows) -> OperationState:
    return OperationState(rows[0][0])


def _operation_step(rows: Rows) -> OperationStep | None:
    if not rows:
        return None
    tenant_id, operation_id, state, jobs = rows[0]
    return OperationStep(tenant_id, operation_id, OperationState(state), jobs)
