"""Definitions and queues for operators, and the jobs that occupy a queue's slots."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobforge.errors import Json


@dataclass(frozen=True, slots=True)
class DefinitionListing:
    """A definition in a list, with its effective settings."""

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
    """All details of one version of a definition."""

    registered: dict[str, Json]
    overrides: dict[str, Json]
    parameters: dict[str, Json] | None


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue, its limits, and its job counts."""

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
    """A running job of any tenant, which occupies a slot of its queue."""

    tenant_id: UUID
    slug: str | None
    job_id: UUID
    definition: str
    version: int
    limit_key: str | None
    worker_id: UUID
    started_at: datetime
    lease_expires_at: datetime
