"""Calls of operations: actions on all jobs of a tenant that match a filter, done in steps."""

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
    """How many jobs an operation would act on now; 100,000 is that many or more."""
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
    """Answers its id; advance_operations does the work."""
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
    """Newest first; `before` is the last id of the page before."""
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
    """What it did already stays. Raises Conflict when it has ended otherwise."""
    return Call(
        "select jobforge.cancel_operation(%s, %s)",
        (operation_id, tenant_id),
        _operation_state,
    )


def advance_operations(*, limit: int = 1000) -> Call[OperationStep | None]:
    """One step, of up to `limit` jobs, of an operation that is due; None when none is."""
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
