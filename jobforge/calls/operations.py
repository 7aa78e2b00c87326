"""Calls on bulk operations: actions on a tenant's jobs that match a filter, done in steps."""

from uuid import UUID

from jobforge.calls.call import Call, JsonArgument
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
    return Call(
        "count_jobs",
        {
            "kind": kind,
            "filter": JsonArgument.from_value(which.to_json(), "filter"),
            "tenant_id": tenant_id,
        },
        value(int, "jobs"),
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
        "start_operation",
        {
            "kind": kind,
            "filter": JsonArgument.from_value(which.to_json(), "filter"),
            "options": JsonArgument.from_value(options.to_json(), "options"),
            "tenant_id": tenant_id,
        },
        value(UUID, "id"),
    )


def get_operation(operation_id: UUID, *, tenant_id: UUID | None = None) -> Call[Operation]:
    """Return an operation and its progress. Raises NotFound."""
    return Call("get_operation", {"id": operation_id, "tenant_id": tenant_id}, one(Operation))


def list_operations(
    *, limit: int = 50, before: UUID | None = None, tenant_id: UUID | None = None
) -> Call[list[Operation]]:
    """List operations, newest first; `before` is the last ID of the previous page."""
    return Call(
        "list_operations",
        {"limit": limit, "before": before, "tenant_id": tenant_id},
        many(Operation),
    )


def cancel_operation(operation_id: UUID, *, tenant_id: UUID | None = None) -> Call[OperationState]:
    """Cancel an operation; completed steps are kept. Raises Conflict if it has finished."""
    return Call(
        "cancel_operation",
        {"id": operation_id, "tenant_id": tenant_id},
        value(OperationState, "state"),
    )


def advance_operations(*, limit: int = 1000) -> Call[OperationStep | None]:
    """Run one step, of up to `limit` jobs, of an operation that is due; None if none is due."""
    return Call("advance_operations", {"limit": limit}, optional(OperationStep))
