"""Details of one job: attempts, timeline, steps, relatives, and why it does not run."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jobs import Job, Outcome, State


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt, that is one lease, of a job; `state` is the job's state afterwards.

    While the attempt is running, `ended_at`, `outcome` and `state` are null.
    """

    job_id: UUID
    attempt: int
    lease: int
    worker_id: UUID
    definition: str
    version: int
    queue: str
    queued_at: datetime | None
    started_at: datetime
    ended_at: datetime | None
    outcome: Outcome | None
    state: State | None
    fingerprint: str | None
    error: dict[str, Json] | None
    exit_code: int | None
    pid: int | None
    peak_memory_bytes: int | None
    cpu_ms: int | None
    stdout_tail: str | None
    stderr_tail: str | None


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An entry of a job's timeline."""

    at: datetime
    kind: str
    actor: str | None
    data: Json


@dataclass(frozen=True, slots=True)
class StoredStep:
    """A step or a wait of a job, for display: done, waiting or timed_out."""

    kind: str
    name: str
    index: int
    state: str
    result: Json
    lease: int
    at: datetime
    until: datetime | None
    match: dict[str, Json] | None
    jobs: list[UUID] | None


@dataclass(frozen=True, slots=True)
class Relative:
    """A parent or a child of a job; its state is `forgotten` if retention deleted it."""

    job_id: UUID
    definition: str | None
    state: str
    on_parent_failure: str


@dataclass(frozen=True, slots=True)
class Membership:
    """The workflow or batch of a job, and the job's node in it."""

    id: UUID
    kind: str
    name: str | None
    node: str | None


@dataclass(frozen=True, slots=True)
class JobHistory:
    """A job with its history, oldest first, and at most 100 parents and 100 children."""

    job: Job
    attempts: list[Attempt]
    events: list[JobEvent]
    parents: list[Relative] = field(default_factory=list)
    children: list[Relative] = field(default_factory=list)
    workflow: Membership | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One reason why a job does not run, and how to resolve it."""

    code: str
    message: str
    remedy: str
    detail: dict[str, Json]
