"""The words of the control plane as data: keys, failures, operations, the catalogue, the audit log,
workers and tenants as operators see them.

As jobs.py has those of jobs. Owns no behaviour beyond being written as JSON.
"""

from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jobs import EnqueueStatus


class Role(StrEnum):
    """What the holder of a key may do."""

    VIEWER = "viewer"
    TENANT_ADMIN = "tenant_admin"
    WORKER = "worker"
    SUPER_ADMIN = "super_admin"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as lists show it. Without a tenant it is the installation's."""

    id: UUID
    tenant_id: UUID | None
    name: str
    role: Role
    lookup: str
    scopes: list[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    rotated_from: UUID | None


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key as the server checks it. `is_live` is the database's word on expiry and revocation."""

    id: UUID
    tenant_id: UUID | None
    role: Role
    scopes: list[str]
    hash: bytes
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    is_live: bool


@dataclass(frozen=True, slots=True)
class DefinitionListing:
    """A definition as a list shows it, with the settings that hold."""

    key: str
    version: int
    description: str | None
    queue: str
    timeout_s: int
    max_attempts: int
    backoff_base_s: float
    backoff_cap_s: float
    max_running: int | None
    max_running_per_key: int | None
    rate_limit: int | None
    rate_period_s: float
    rate_burst: int | None
    rate_limit_per_key: int | None
    rate_period_per_key_s: float
    rate_burst_per_key: int | None
    hooks: bool
    is_active: bool
    paused_at: datetime | None
    created_at: datetime
    updated_at: datetime
    versions: list[int]


@dataclass(frozen=True, slots=True)
class DefinitionInfo(DefinitionListing):
    """All that is known of one version of a definition."""

    registered: dict[str, Json]
    overrides: dict[str, Json]
    parameters: dict[str, Json] | None


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue, its limits, and how many jobs are in it."""

    name: str
    paused_at: datetime | None
    max_running: int | None
    rate_limit: int | None
    rate_period_s: float | None
    rate_burst: int | None
    queued: int
    running: int
    scheduled: int
    oldest_queued_at: datetime | None


@dataclass(frozen=True, slots=True)
class SlotHolder:
    """A job that runs, of whichever tenant, and so holds a slot of its queue."""

    tenant_id: UUID
    slug: str | None
    job_id: UUID
    definition: str
    version: int
    limit_key: str | None
    worker_id: UUID
    started_at: datetime
    lease_expires_at: datetime


@dataclass(frozen=True, slots=True)
class FailureFilter:
    """Which groups of dead jobs; all that is given must hold."""

    definition: str | None = None
    queue: str | None = None
    since: datetime | None = None

    def to_json(self) -> dict[str, Json]:
        return _given(self)


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Dead jobs of one fingerprint, and what people know of them. `jobs` stops at 10,000.

    `hourly` is how many died in each of the last 24 hours, the present one last; `versions` are
    of the definition. `build` is the worker's where the sample died, while that is known; the
    failure `is_back` when that is the build it is resolved in, or a later one.
    """

    fingerprint: str
    definition: str
    jobs: int
    first_seen: datetime
    last_seen: datetime
    sample_job_id: UUID
    error: dict[str, Json] | None
    note: str | None
    snoozed_until: datetime | None
    resolved_in: str | None
    versions: list[int]
    hourly: list[int]
    build: str | None
    is_back: bool


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
        return _given(self)


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


class Erasure(NamedTuple):
    """The erasure of a tenant that waits for the tenant's artifacts to be deleted."""

    tenant_id: UUID
    operation_id: UUID


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries of the log; all that is given must hold."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    after: datetime | None = None
    before: datetime | None = None

    def to_json(self) -> dict[str, Json]:
        return _given(self)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what, to what."""

    id: UUID
    tenant_id: UUID | None
    at: datetime
    actor: str
    action: str
    target: str | None
    detail: Json


class Allowance(NamedTuple):
    """Whether a request may go on, and if not, in how many seconds to try again."""

    allowed: bool
    retry_after_s: float


class EnqueuedOnce(NamedTuple):
    job_id: UUID
    status: EnqueueStatus
    replayed: bool  # an earlier request with the same key had this answer


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker as operators see it: live, draining, stopping, stale or stopped.

    Its memory, and by about how much its clock is ahead, are of its last heartbeat.
    """

    id: UUID
    state: str
    host: str | None
    pid: int | None
    build: str | None
    queues: list[str]
    definitions: list[str] | None
    slots: int
    running: int
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None
    memory_bytes: int | None
    clock_skew_s: float | None
    isolation: str | None = None  # the level at which its jobs are isolated


@dataclass(frozen=True, slots=True)
class TenantInfo:
    """A tenant as operators see it."""

    id: UUID
    slug: str | None
    name: str | None
    timezone: str
    weight: int
    max_running: int | None
    max_pending: int | None
    rate_limit: int | None
    paused_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class BoundLogin:
    """A database login and the tenants for which it may act.

    `slugs` has the id of a tenant without a slug. `fault` says why the binding does not confine the
    login, for example because it does not exist or has become an operator.
    """

    login: str
    tenants: list[UUID]
    slugs: list[str]
    bound_at: datetime
    bound_by: str
    fault: str | None


@dataclass(frozen=True, slots=True)
class SweepPosition:
    """How far a sweep over all jobs has come, and how many of its last step it changed."""

    after_tenant: UUID | None
    after_id: UUID | None
    changed: int

    @property
    def is_at_end(self) -> bool:
        return self.after_id is None


def _given(what: FailureFilter | OperationOptions | AuditFilter) -> dict[str, Json]:
    values = ((field.name, getattr(what, field.name)) for field in fields(what))
    return {name: value for name, value in values if value is not None}


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """A tenant's configuration of a connector. `secrets` tell where each comes from, no more."""

    id: UUID
    name: str
    connector: str
    settings: dict[str, Json]
    secrets: dict[str, str]
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str


class OpenConfig(NamedTuple):
    """A configuration as a worker opens it, with its secrets as they are kept."""

    id: UUID
    settings: dict[str, Json]
    secrets: dict[str, dict[str, str]]


class WrappedKey(NamedTuple):
    """A tenant's key, wrapped by the installation's key of that id."""

    key_id: str
    wrapped: bytes


class TenantWrappedKey(NamedTuple):
    tenant_id: UUID
    kept: WrappedKey
