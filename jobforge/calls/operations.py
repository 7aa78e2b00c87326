"""Calls on bulk operations: actions on a tenant's jobs that match a filter, done in steps."""

from uuid import UUID

from jobforge.calls.call import Call, build_call
from jobforge.calls.results import many, one, optional, value
from jobforge.types.jobs import JobFilter
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
    return build_call(
        "count_jobs", value(int, "jobs"), kind=kind, filter=which, tenant_id=tenant_id
    )


def start_operation(
    kind: OperationKind,
    which: JobFilter,
    options: OperationOptions = NO_OPTIONS,
    *,
    tenant_id: UUID | None = None,
) -> Call[UUID]:
    """Start an operation and return its ID; advance_operations does the work."""
    return build_call(
        "start_operation",
        value(UUID, "id"),
        kind=kind,
        filter=which,
        options=options,
        tenant_id=tenant_id,
    )


def get_operation(operation_id: UUID, *, tenant_id: UUID | None = None) -> Call[Operation]:
    """Return an operation and its progress. Raises NotFound."""
    return build_call("get_operation", one(Operation), id=operation_id, tenant_id=tenant_id)


def list_operations(
    *, limit: int = 50, before: UUID | None = None, tenant_id: UUID | None = None
) -> Call[list[Operation]]:
    """List operations, newest first; `before` is the last ID of the previous page."""
    return build_call(
        "list_operations", many(Operation), limit=limit, before=before, tenant_id=tenant_id
    )


def cancel_operation(operation_id: UUID, *, tenant_id: UUID | None = None) -> Call[OperationState]:
    """Cancel an operation; completed steps are kept. Raises Conflict if it has finished."""
    return build_call(
        "cancel_operation", value(OperationState, "state"), id=operation_id, tenant_id=tenant_id
    )


def advance_operations(*, limit: int = 1000) -> Call[OperationStep | None]:
    """Run one step, of up to `limit` jobs, of an operation that is due; None if none is due."""
    return build_call("advance_operations", optional(OperationStep), limit=limit)
