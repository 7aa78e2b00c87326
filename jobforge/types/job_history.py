"""What is told of one job: attempts, timeline, steps and relatives, and why it does not run."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jobs import Job, Outcome, State


@dataclass(frozen=True, slots=True)
class Attempt:
    """One lease of a job, and where it left the job. The one in progress has neither outcome nor
    end.
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
    """A point of a job's timeline."""

    at: datetime
    kind: str
    actor: str | None
    data: Json


@dataclass(frozen=True, slots=True)
class StoredStep:
    """A step or a wait of a job, as people see it: done, waiting or timed_out."""

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
    """A parent or a child of a job; `forgotten` is one past retention."""

    job_id: UUID
    definition: str | None
    state: str
    on_parent_failure: str


@dataclass(frozen=True, slots=True)
class Membership:
    """The workflow or batch that a job is of, and the name of its node there."""

    id: UUID
    kind: str
    name: str | None
    node: str | None


@dataclass(frozen=True, slots=True)
class JobHistory:
    """All that is known of a job, oldest first. Of parents and children a hundred each."""

    job: Job
    attempts: list[Attempt]
    events: list[JobEvent]
    parents: list[Relative] = field(default_factory=list)
    children: list[Relative] = field(default_factory=list)
    workflow: Membership | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One reason why a job does not run, and what would change that."""

    code: str
    message: str
    remedy: str
    detail: dict[str, Json]
