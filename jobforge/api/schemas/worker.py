"""Schemas of the worker protocol."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobforge.api.schemas.base_types import (
    Body,
    Count,
    DefinitionKey,
    Moment,
    NulFreeText,
    QueueName,
    Seconds,
)
from jobforge.api.schemas.jobs import JsonUuid, NewJob
from jobforge.api.schemas.workflows import NewNode
from jobforge.errors import Json
from jobforge.types.jobs import Note, Outcome, OutcomeReport, SaveStatus, State, Step, Token

MAX_ITEMS = 5000
LONGEST_WAIT_S = 20

_JOB = "0198c0de-0000-7000-8000-000000000001"
_TENANT = "aaaaaaaa-0000-4000-8000-000000000000"
_WORKER = "77777777-0000-4000-8000-000000000000"

Lease = Annotated[int, Field(ge=0, le=2**63 - 1, examples=[1763200000000000])]
LeaseSeconds = Annotated[float, Field(ge=1, le=3600, description="Lease duration in seconds.")]
DefinitionVersions = Annotated[
    list[Annotated[NulFreeText, Field(max_length=220, examples=["send_welcome@1"])]],
    Field(max_length=10_000, description="`key@version` of each (null: all definitions)."),
]


class WorkerBody(Body):
    """`worker_id` is a random UUID of the worker's process."""

    worker_id: JsonUuid = Field(examples=[_WORKER])


class Registration(WorkerBody):
    """A worker's properties, queues and definitions."""

    queues: Annotated[list[QueueName], Field(min_length=1, max_length=100)]
    slots: Count
    definitions: DefinitionVersions | None = None
    host: Annotated[NulFreeText, Field(max_length=255)] | None = None
    pid: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    build: Annotated[NulFreeText, Field(max_length=255)] | None = None
    isolation: Annotated[NulFreeText, Field(max_length=255)] | None = Field(
        None, description="Isolation level of its jobs."
    )
    lease_s: LeaseSeconds = 30


class RegisteredWorker(BaseModel):
    worker_id: UUID
    tenant_id: UUID | None = Field(description="Tenant of the worker's key (null: all tenants).")


class DeclaredDefinition(Body):
    """A definition declared in code; `settings` are those of put_definition."""

    key: DefinitionKey
    version: Count = 1
    settings: dict[str, Json] = Field(default_factory=dict)


class DeclaredDefinitions(Body):
    definitions: Annotated[list[DeclaredDefinition], Field(max_length=1000)]


class KnownDefinition(BaseModel):
    key: str
    version: int
    status: Literal["registered", "known"] = Field(
        description="`known`: already registered; a worker of one tenant cannot change it."
    )


class Claim(WorkerBody):
    """Maximum number of jobs to claim from each queue. Claim only as many as can start at once."""

    queues: Annotated[
        dict[QueueName, Annotated[int, Field(ge=0, le=MAX_ITEMS)]],
        Field(min_length=1, max_length=100, examples=[{"default": 10}]),
    ]
    definitions: DefinitionVersions | None = None
    registered: bool = Field(
        default=False,
        description="Serve the definitions of the worker's registration instead of `definitions`.",
    )
    lease_s: LeaseSeconds = 30
    wait_s: Annotated[float, Field(ge=0, le=LONGEST_WAIT_S)] = Field(
        0, description="Seconds to wait for a job if there is none."
    )


class TokenBody(Body):
    """Tenant, job and lease as claimed. With the worker's id, they prove that it holds the job."""

    tenant_id: JsonUuid = Field(examples=[_TENANT])
    job_id: JsonUuid = Field(examples=[_JOB])
    lease: Lease

    def to_token(self) -> Token:
        return Token(self.tenant_id, self.job_id, self.lease)


class HeldJobsBody(WorkerBody):
    jobs: Annotated[list[TokenBody], Field(max_length=MAX_ITEMS)]


class HeartbeatBody(HeldJobsBody):
    lease_s: LeaseSeconds = 30
    memory_bytes: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = Field(
        None, description="Memory used by the worker process."
    )
    clock: Moment | None = Field(None, description="Time of the worker's clock.")


StepName = Annotated[NulFreeText, Field(min_length=1, max_length=200, examples=["send"])]
StepIndex = Annotated[
    int, Field(ge=0, lt=1_000_000, description="Index among the steps with this name, from 0.")
]


class StepWait(Body):
    """The step that a `snoozed` attempt waits for. A sleep and the timeout of an event end at
    `run_at` or after `retry_in_s`; a gather ends when its jobs have finished.
    """

    kind: Literal["sleep", "event", "gather"]
    name: StepName = Field(description="For an event, the event's name.")
    index: StepIndex
    match: dict[str, Json] | None = Field(
        None, description="Members that the event's data must contain."
    )
    since: Annotated[float, Field(ge=0, lt=253_402_300_800)] | None = Field(
        None,
        description="Unix time after which events match (default: the job's creation).",
    )
    jobs: Annotated[list[JsonUuid], Field(min_length=1, max_length=10_000)] | None = None


class AttemptEndBody(Body):
    """Outcome details of an attempt."""

    started_at: Moment | None = Field(None, description="Start time as claimed.")
    result: Json = None
    error: dict[str, Json] | None = None
    reason: NulFreeText | None = None
    final: bool | None = None
    retry_in_s: Seconds | None = None
    run_at: Moment | None = None
    artifact_ref: Annotated[NulFreeText, Field(max_length=1000)] | None = None
    exit_code: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    pid: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    peak_memory_bytes: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    cpu_ms: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    stdout_tail: NulFreeText | None = None
    stderr_tail: NulFreeText | None = None
    wait: StepWait | None = None

    def to_report(self, token: Token, outcome: str) -> OutcomeReport:
        facts = {name: getattr(self, name) for name in AttemptEndBody.model_fields}
        if self.wait is not None:
            facts["wait"] = self.wait.model_dump(mode="json", exclude_none=True)
        return OutcomeReport(*token, Outcome(outcome), **facts)


OutcomeName = Literal[
    "succeeded", "failed", "timed_out", "crashed", "canceled", "snoozed", "released"
]


class OutcomeBody(AttemptEndBody, TokenBody):
    outcome: OutcomeName

    def to_outcome_report(self) -> OutcomeReport:
        return self.to_report(self.to_token(), self.outcome)


class OutcomesBody(WorkerBody):
    outcomes: Annotated[list[OutcomeBody], Field(max_length=MAX_ITEMS)]


class NoteBody(TokenBody):
    """Something that a running job reports."""

    kind: Literal["progress", "log", "event"]
    data: dict[str, Json]

    def to_note(self) -> Note:
        return Note(*self.to_token(), self.kind, self.data)


class NotesBody(WorkerBody):
    notes: Annotated[list[NoteBody], Field(max_length=MAX_ITEMS)]


class StepBody(TokenBody):
    """A completed step of a running job, which later attempts skip."""

    name: StepName
    index: StepIndex = 0
    result: Json = None

    def to_step(self) -> Step:
        return Step(*self.to_token(), self.name, self.index, self.result)


class NewSteps(WorkerBody):
    steps: Annotated[list[StepBody], Field(max_length=MAX_ITEMS)]


class RunningJobBody(WorkerBody):
    """A request of a running job."""

    job: TokenBody


class ChildJobsBody(RunningJobBody):
    """Jobs that a running job creates for its own tenant."""

    jobs: Annotated[list[NewJob], Field(min_length=1, max_length=MAX_ITEMS)]


class StepChildJobsBody(RunningJobBody):
    """Jobs created as a step of the running job: only once, even if the request is repeated."""

    name: StepName
    index: StepIndex = 0
    jobs: Annotated[list[NewJob], Field(max_length=MAX_ITEMS)]


class AddedNodesBody(RunningJobBody):
    """Nodes that a running job adds to its workflow."""

    nodes: Annotated[list[NewNode], Field(max_length=MAX_ITEMS)]


class Reap(Body):
    limit: Annotated[int, Field(ge=1, le=MAX_ITEMS)] = 500


class JobLeaseBody(WorkerBody):
    """The lease of the job in the path. A worker of one tenant may omit `tenant_id`."""

    tenant_id: JsonUuid | None = Field(None, examples=[_TENANT])
    lease: Lease


class JobHeartbeatBody(JobLeaseBody):
    lease_s: LeaseSeconds = 30


class JobCompletionBody(AttemptEndBody, JobLeaseBody):
    outcome: OutcomeName = "succeeded"


class JobFailureBody(AttemptEndBody, JobLeaseBody):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "worker_id": _WORKER,
                    "lease": 1763200000000000,
                    "error": {"type": "Timeout", "message": "connection timed out"},
                }
            ]
        }
    )

    outcome: Literal["failed", "timed_out", "crashed"] = "failed"


class DoneStep(BaseModel):
    """A completed step. For an event, a null `result` means that it did not arrive in time."""

    kind: Literal["step", "sleep", "event", "enqueue", "gather"]
    name: str
    index: int
    result: Json


class ClaimedJobView(BaseModel):
    """A job that the worker holds, with everything needed to run it."""

    tenant_id: UUID
    job_id: UUID
    lease: int
    definition: str
    version: int
    queue: str
    attempt: int
    max_attempts: int
    timeout_s: int | None
    started_at: datetime
    source: str
    correlation_id: str | None
    traceparent: str | None
    idempotency_key: str | None
    tags: list[str] | None
    payload: dict[str, Json]
    steps: list[DoneStep] | None = Field(description="Steps of earlier attempts (null: none).")
    waited_s: float = Field(description="Seconds in the queue before the claim.")


class ReapedJob(BaseModel):
    """A job whose lease expired or that was not started in time, with its new state."""

    tenant_id: UUID
    job_id: UUID
    lease: int
    state: State


class JobHeartbeatView(BaseModel):
    job_id: UUID
    lease: int
    status: Literal["ok", "cancel", "held", "lost"]


class HeartbeatsView(BaseModel):
    """`command` is for the worker itself; `unknown`: register again."""

    command: Literal["ok", "drain", "stop", "unknown"]
    items: list[JobHeartbeatView]


class HeartbeatStatusView(BaseModel):
    status: Literal["ok", "cancel", "held"]


class SettledJob(BaseModel):
    """A repeated report is also `ok`, but without the state. `busy`: send the report again soon."""

    job_id: UUID
    lease: int
    status: Literal["ok", "lost", "busy"]
    state: State | None


class NotedJob(BaseModel):
    job_id: UUID
    lease: int
    status: Literal["ok", "lost"]


class SavedStep(BaseModel):
    """`too_large`, `too_many`: result refused. `lost`: the worker no longer holds the job."""

    job_id: UUID
    lease: int
    name: str
    index: int
    status: SaveStatus


class SettledStateView(BaseModel):
    state: State | None = Field(description="null if the same outcome was reported before.")


class Partitions(BaseModel):
    created: int
