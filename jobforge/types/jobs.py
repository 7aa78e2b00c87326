"""Jobs as data: the arguments and results of the engine's functions.

calls/ builds the calls; job_history.py has the details of one job. Types whose rows number in the
thousands are NamedTuples, because a frozen dataclass takes ten times as long to create; the others
are frozen dataclasses.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple, overload
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jsonb import JsonFields, decode


class State(StrEnum):
    """State of a job. `canceling` is a running job whose cancellation was requested."""

    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    QUEUED = "queued"
    RUNNING = "running"
    CANCELING = "canceling"
    SUCCEEDED = "succeeded"
    CANCELED = "canceled"
    DEAD = "dead"

    @property
    def is_final(self) -> bool:
        """Whether the job has finished. A dead job can be retried."""
        return self in {State.SUCCEEDED, State.CANCELED, State.DEAD}


class Outcome(StrEnum):
    """Outcome of an attempt."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    LEASE_LOST = "lease_lost"
    CANCELED = "canceled"
    RELEASED = "released"
    SNOOZED = "snoozed"


class EnqueueStatus(StrEnum):
    CREATED = "created"
    EXISTING = "existing"  # another job has the idempotency key
    REPLACED = "replaced"  # that job had not started and was updated


class JobRequest(NamedTuple):
    """A job to enqueue. Fields that are None are omitted; docs/sql.md explains each field."""

    definition: str  # `key` or `key@version`
    payload: dict[str, Json] | None = None  # the handler's arguments
    version: int | None = None  # default: the newest active version
    queue: str | None = None  # default: the definition's queue
    priority: int | None = None  # higher runs first (default: 0)
    run_at: datetime | None = None  # earliest start time
    delay_s: float | None = None  # earliest start, in seconds from now
    expires_at: datetime | None = None  # cancel the job if it has not started by then
    expires_in_s: float | None = None  # the same, in seconds from now
    max_attempts: int | None = None  # default: the definition's value
    timeout_s: int | None = None  # default: the definition's value
    key: str | None = None  # idempotency key
    key_mode: str | None = None  # `retained`, `active` or `window`: how long the key applies
    key_window_s: float | None = None  # length of the window of `key_mode`
    on_conflict: str | None = None  # `existing`, `replace` or `raise`
    limit_key: str | None = None  # key of the per-key limits
    tags: Sequence[str] | None = None
    correlation_id: str | None = None  # connects the job with other jobs and events
    traceparent: str | None = None  # W3C trace context
    created_by: str | None = None  # name of the creator
    artifact_ref: str | None = None  # reference to a payload in the artifact store
    far_future: bool | None = None  # allow a start more than a year ahead
    after: Sequence[UUID] | None = None  # jobs that must finish first
    on_parent_failure: str | None = None  # `cancel`, `run` or `wait`

    def to_json(self) -> dict[str, Json]:
        if self.version is not None and self.payload is not None and self[3:] == _NO_OPTIONS:
            return {
                "definition": self.definition,
                "payload": self.payload,
                "version": self.version,
            }
        return _drop_none(self._fields, self)

    def options(self) -> dict[str, Json]:
        """Return the members of to_json except definition and payload."""
        if self.version is not None and self[3:] == _NO_OPTIONS:
            return {"version": self.version}
        return _drop_none(self._fields[2:], self[2:])

    def with_payload(self, payload: dict[str, Json] | None) -> "JobRequest":
        # _replace takes four times as long.
        return JobRequest._make((self[0], payload, *self[2:]))

    @property
    def can_batch(self) -> bool:
        """Whether jobs may share all other fields: keys and parents are individual."""
        return self.key is None and self.after is None and self.on_parent_failure is None


# Most jobs of enqueue_many have no options, and they number in the thousands.
_NO_OPTIONS = JobRequest("")[3:]


class UniformJobs(Sequence[JobRequest]):
    """Jobs that differ only in their payloads; as a sequence, their individual requests."""

    __slots__ = ("payloads", "template")

    def __init__(self, template: JobRequest, payloads: Sequence[dict[str, Json] | None]) -> None:
        self.template = template
        self.payloads = payloads

    def __len__(self) -> int:
        return len(self.payloads)

    @overload
    def __getitem__(self, index: int) -> JobRequest: ...
    @overload
    def __getitem__(self, index: slice) -> "UniformJobs": ...
    def __getitem__(self, index: int | slice) -> "JobRequest | UniformJobs":
        if isinstance(index, slice):
            return UniformJobs(self.template, self.payloads[index])
        return self.template.with_payload(self.payloads[index])


class Enqueued(NamedTuple):
    """Result of an enqueue: the job's ID, and whether the call created the job."""

    job_id: UUID
    status: EnqueueStatus  # `created`, `existing` or `replaced`


class Token(NamedTuple):
    """Proof, together with the worker's ID, that the worker still holds the job's lease."""

    tenant_id: UUID
    job_id: UUID
    lease: int


class ClaimedJob(NamedTuple):
    """A job whose lease this worker holds, with everything needed to run it."""

    tenant_id: UUID
    job_id: UUID
    lease: int
    definition: str
    version: int
    queue: str
    attempt: int
    max_attempts: int
    timeout_s: int | None
    started: bytes  # Postgres's binary timestamp, decoded only on demand
    source: str
    correlation_id: str | None
    traceparent: str | None
    idempotency_key: str | None
    tags: list[str] | None
    payload_json: str
    steps_json: str | None = None  # steps completed in earlier attempts
    waited_s: float = 0.0  # time in the queue before the claim

    @property
    def token(self) -> Token:
        return Token(self.tenant_id, self.job_id, self.lease)

    @property
    def started_at(self) -> datetime:
        return _EPOCH + timedelta(microseconds=int.from_bytes(self.started, "big", signed=True))

    @property
    def payload(self) -> dict[str, Json]:
        document: dict[str, Json] = decode(self.payload_json)
        return document


_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def encode_timestamp(at: datetime) -> bytes:
    """Return a time in Postgres's binary format."""
    return ((at - _EPOCH) // timedelta(microseconds=1)).to_bytes(8, "big", signed=True)


class OutcomeReport(NamedTuple):
    """The outcome of an attempt, which a worker reports. Fields that are None are omitted."""

    tenant_id: UUID
    job_id: UUID
    lease: int  # the lease number from the claim
    outcome: Outcome
    started_at: datetime | None = None  # from the claim; saves the engine a lookup
    result: Json = None  # the handler's result, for a succeeded job
    error: dict[str, Json] | None = None  # `type`, `message` and `traceback`, for a failed attempt
    reason: str | None = None  # human-readable reason
    final: bool | None = None  # True: the job becomes dead without another attempt
    retry_in_s: float | None = None  # delay before the next attempt, instead of the backoff
    run_at: datetime | None = None  # time of the next attempt, instead of the backoff
    artifact_ref: str | None = None  # reference to a result in the artifact store
    exit_code: int | None = None  # exit code of the job's process
    pid: int | None = None  # ID of the job's process
    peak_memory_bytes: int | None = None
    cpu_ms: int | None = None  # CPU time of the job's process
    stdout_tail: str | None = None  # end of the standard output
    stderr_tail: str | None = None  # end of the standard error output
    wait: dict[str, Json] | None = None  # what a snoozed job waits for

    def to_json(self) -> dict[str, Json]:
        # Takes a third of the time for most reports of a worker.
        if self.started_at is not None and self[5:] == _NO_DETAILS:
            return {
                "tenant_id": self.tenant_id,
                "job_id": self.job_id,
                "lease": self.lease,
                "outcome": self.outcome,
                "started_at": self.started_at,
            }
        return _drop_none(self._fields, self)


_NO_DETAILS = (None,) * len(OutcomeReport._fields[5:])


class Note(NamedTuple):
    """A progress update, log line or custom event of a running job."""

    tenant_id: UUID
    job_id: UUID
    lease: int
    kind: str  # progress, log or event
    data: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Step:
    """A completed step of a running job, which later attempts skip."""

    tenant_id: UUID
    job_id: UUID
    lease: int
    name: str
    index: int
    result: Json

    def to_json(self) -> dict[str, Json]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


class SaveStatus(StrEnum):
    OK = "ok"
    LOST = "lost"  # the lease is not held; nothing was stored
    TOO_LARGE = "too_large"
    TOO_MANY = "too_many"


class Noted(NamedTuple):
    """Whether the notes of a lease were stored."""

    job_id: UUID
    lease: int
    is_lost: bool


class SettleStatus(StrEnum):
    OK = "ok"
    LOST = "lost"  # the lease is not held; nothing was recorded
    BUSY = "busy"  # another transaction has locked the job or a row that settling it needs


class Settled(NamedTuple):
    """Status of a settled outcome. A repeated report is `ok` too, but without the job's state."""

    job_id: UUID
    lease: int
    status: SettleStatus
    state: State | None


class Reaped(NamedTuple):
    tenant_id: UUID
    job_id: UUID
    lease: int
    state: State


class BeatStatus(StrEnum):
    OK = "ok"
    CANCEL = "cancel"  # extended, and the job's cancellation was requested
    HELD = "held"  # not extended: another transaction has locked the heartbeat
    LOST = "lost"


class WorkerCommand(StrEnum):
    """Command to the worker in a heartbeat's result."""

    OK = "ok"
    DRAIN = "drain"
    STOP = "stop"
    UNKNOWN = "unknown"  # the worker must register again


class Beat(NamedTuple):
    job_id: UUID
    lease: int
    status: BeatStatus


@dataclass(frozen=True, slots=True)
class Heartbeat:
    command: WorkerCommand
    jobs: list[Beat]


JobOrder = Literal["newest", "oldest"]


@dataclass(frozen=True, slots=True)
class JobFilter(JsonFields):
    """A filter on a tenant's jobs. A job must match all fields that are set."""

    state: str | Sequence[str] | None = None  # State values; `failed`: the last attempt failed
    definition: str | None = None
    queue: str | None = None
    tag: str | None = None
    source: str | None = None  # such as `manual`, `schedule` or `event`
    key: str | None = None  # idempotency key
    correlation_id: str | None = None
    fingerprint: str | None = None  # fingerprint of a failure group
    created_after: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobListing:
    """A job in a list."""

    id: UUID
    state: State
    definition: str
    version: int
    queue: str
    priority: int
    attempt: int  # number of the current or last attempt, 0 before the first claim
    max_attempts: int
    created_at: datetime
    run_at: datetime  # earliest start time
    queued_at: datetime | None  # since when the job is ready to run
    started_at: datetime | None  # start of the current or last attempt
    finished_at: datetime | None
    worker_id: UUID | None  # the worker that holds the lease
    source: str  # what created the job, such as `manual`, `schedule` or `event`
    source_ref: str | None  # ID of the creator, such as the trigger or the event
    correlation_id: str | None
    idempotency_key: str | None
    tags: list[str] | None
    fingerprint: str | None  # failure group of the last error
    error: dict[str, Json] | None  # the last error
    retry_of: UUID | None  # the finished job that this job repeats
    created_by: str | None


@dataclass(frozen=True, slots=True)
class Job(JobListing):
    """A job with all its fields."""

    tenant_id: UUID
    lease: int  # number of the last lease (fencing token)
    heartbeat_at: datetime | None
    lease_expires_at: datetime | None  # end of the current lease
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    expires_at: datetime | None  # the job is canceled if it has not started by then
    timeout_s: int | None
    limit_key: str | None  # key of the per-key limits
    traceparent: str | None  # W3C trace context of the enqueue
    artifact_ref: str | None  # reference to a file in the artifact store
    payload: dict[str, Json]
    result: Json


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """Number of a tenant's jobs in one state and queue."""

    queue: str
    state: State
    jobs: int
    oldest_queued_at: datetime | None


def _drop_none(names: Sequence[str], values: Sequence[Json]) -> dict[str, Json]:
    pairs = zip(names, values, strict=True)
    return {name: value for name, value in pairs if value is not None}
