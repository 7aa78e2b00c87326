"""Schemas of jobs."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobforge.api.schemas.base_types import (
    Body,
    Moment,
    NulFreeText,
    QueueName,
    Reason,
    Seconds,
    Whole,
)
from jobforge.errors import Json
from jobforge.types.jobs import EnqueueStatus, JobRequest, State, SummaryLine

MOST_JOBS = 10_000

JsonUuid = Annotated[UUID, Field(strict=False)]
AttemptCount = Annotated[Whole, Field(ge=1, le=1000)]
Tag = Annotated[NulFreeText, Field(min_length=1, max_length=200)]
Priority = Annotated[Whole, Field(ge=-32768, le=32767)]


DefinitionRef = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}(@[1-9][0-9]{0,8})?$",
        description="`key` for the newest active version, or `key@version`.",
    ),
]
ParentFailurePolicy = Annotated[
    Literal["cancel", "run", "wait"],
    Field(description="What to do if a parent is dead or canceled (default: `cancel`)."),
]


class JobFields(Body):
    """Fields of a new job. Omitted fields default to the definition's settings."""

    payload: dict[str, Json] | None = None
    version: Annotated[Whole, Field(ge=1, le=2_147_483_647)] | None = None
    queue: QueueName | None = None
    priority: Priority | None = None
    run_at: Moment | None = None
    delay_s: Seconds | None = None
    expires_at: Moment | None = None
    expires_in_s: Seconds | None = None
    max_attempts: AttemptCount | None = None
    timeout_s: Annotated[Whole, Field(ge=1, le=604_800)] | None = None
    limit_key: Annotated[NulFreeText, Field(min_length=1, max_length=200)] | None = None
    tags: Annotated[list[Tag], Field(max_length=50)] | None = None
    correlation_id: Annotated[NulFreeText, Field(max_length=200)] | None = None
    traceparent: Annotated[NulFreeText, Field(max_length=200)] | None = None
    artifact_ref: Annotated[NulFreeText, Field(max_length=1000)] | None = None
    far_future: bool | None = None
    on_parent_failure: ParentFailurePolicy | None = None


class NewJob(JobFields):
    """A job to create. Omitted fields default to the definition's settings."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "definition": "send_welcome",
                    "payload": {"to": "ada@example.com", "name": "Ada"},
                    "key": "welcome:ada@example.com",
                }
            ]
        }
    )

    definition: DefinitionRef
    key: Annotated[NulFreeText, Field(min_length=1, max_length=255)] | None = Field(
        None, description="Deduplication key, unique per tenant and definition."
    )
    key_mode: Literal["retained", "active", "window"] | None = None
    key_window_s: Seconds | None = None
    on_conflict: Literal["existing", "replace", "raise"] | None = None
    after: Annotated[list[JsonUuid], Field(min_length=1, max_length=MOST_JOBS)] | None = Field(
        None, description="Jobs that must finish first."
    )

    def to_job_request(self, created_by: str) -> JobRequest:
        # A request may contain thousands of jobs: vars() skips the cost of model_dump().
        return JobRequest(**vars(self), created_by=created_by)


class NewJobs(Body):
    """Jobs to create together: all or none."""

    jobs: Annotated[list[NewJob], Field(min_length=1, max_length=MOST_JOBS)]


class CreatedJobView(BaseModel):
    """The job of a request. `existing`: a job with the same key already existed."""

    id: UUID
    status: EnqueueStatus


class JobId(BaseModel):
    id: UUID


class JobState(BaseModel):
    state: State


class JobChanges(Body):
    """Changes to a waiting job. A `run_at` of null means now."""

    payload: dict[str, Json] | None = None
    priority: Priority | None = None
    queue: QueueName | None = None
    run_at: Moment | None = None


class CancelBody(Body):
    reason: Reason | None = Field(None, examples=["not needed any more"])


class RetryBody(Body):
    """Optional changes to the retried job: a new payload or another number of attempts."""

    payload: dict[str, Json] | None = None
    attempts: AttemptCount | None = None


class Reschedule(Body):
    run_at: Moment | None = Field(description="null: as soon as possible")


class Summary(BaseModel):
    """Number of jobs by queue and state; finished jobs only within the window."""

    window_s: float
    items: list[SummaryLine]
