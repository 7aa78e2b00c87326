"""Operations over many jobs: their options and their progress."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jsonb import given_fields


class OperationKind(StrEnum):
    """What is done to every job that matches."""

    CANCEL = "cancel"
    RETRY = "retry"
    REDRIVE = "redrive"  # of dead jobs: a canary first, then at a rate
    DISCARD = "discard"  # of dead jobs
    ERASE = "erase"  # of a whole tenant; started by delete_tenant, and counts rows


class OperationState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"  # for its canaries; an erasure for what its `reason` says
    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True)
class OperationOptions:
    """How; docs/sql.md says which options a kind takes."""

    reason: str | None = None
    attempts: int | None = None
    canary: int | None = None
    rate: float | None = None

    def to_json(self) -> dict[str, Json]:
        return given_fields(self)


@dataclass(frozen=True, slots=True)
class Operation:
    """An action on many jobs, and how far it is."""

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
    """What one step did, and how the operation stands after it."""

    tenant_id: UUID
    operation_id: UUID
    state: OperationState
    jobs: int


@dataclass(frozen=True, slots=True)
class SweepPosition:
    """How far a sweep over all jobs has come, and how many of its last step it changed."""

    after_tenant: UUID | None
    after_id: UUID | None
    changed: int

    @property
    def is_at_end(self) -> bool:
        return self.after_id is None
