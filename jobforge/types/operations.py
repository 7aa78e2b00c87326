"""Bulk operations: their options and their progress."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jsonb import JsonFields


class OperationKind(StrEnum):
    """What a bulk operation does with every matching job."""

    CANCEL = "cancel"
    RETRY = "retry"
    REDRIVE = "redrive"  # retries dead jobs: a canary first, then at a rate
    DISCARD = "discard"  # cancels dead jobs
    ERASE = "erase"  # deletes a tenant; started by delete_tenant, counts rows


class OperationState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"  # for its canaries; for an erasure, see `reason`
    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True)
class OperationOptions(JsonFields):
    """Options of an operation; docs/sql.md lists them by kind."""

    reason: str | None = None
    attempts: int | None = None
    canary: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """A bulk operation and its progress."""

    id: UUID
    kind: OperationKind
    state: OperationState
    filter: dict[str, Json]
    options: dict[str, Json]
    matched: int
    done: int
    skipped: int
    reason: str | None
    created_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class OperationStep(NamedTuple):
    """Jobs changed by one step, and the operation's state afterwards."""

    tenant_id: UUID
    operation_id: UUID
    state: OperationState
    jobs: int


@dataclass(frozen=True, slots=True)
class SweepPosition:
    """Position of a sweep over all jobs, and the number of jobs that its last step changed."""

    after_tenant: UUID | None
    after_id: UUID | None
    changed: int

    @property
    def is_at_end(self) -> bool:
        return self.after_id is None
