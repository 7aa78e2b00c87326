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
from jobforge.types.api_requests import EnqueuedOnce
from jobforge.types.jobs import Enqueued, EnqueueStatus, JobRequest, State, SummaryLine

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

    payload: dict[str, Json] | None = Field(None, description="Arguments of the job.")
    version: Annotated[Whole, Field(ge=1, le=2_147_483_647)] | None = Field(
        None, description="Version of the definition (default: the newest active version)."
    )
    queue: QueueName | None = Field(None, description="Queue of the job.")
    priority: Priority | None = Field(None, description="Jobs with a higher priority start first.")
    run_at: Moment | None = Field(
        None, description="Earliest start. With `delay_s`, the later of both applies."
    )
    delay_s: Seconds | None = Field(None, description="Earliest start, in seconds from now.")
    expires_at: Moment | None = Field(
        None, description="Cancel the job if it has not started by then."
    )
    expires_in_s: Seconds | None = Field(
        None, description="Cancel the job if it has not started within this number of seconds."
    )
    max_attempts: AttemptCount | None = Field(None, description="Maximum number of attempts.")
    timeout_s: Annotated[Whole, Field(ge=1, le=604_800)] | None = Field(
        None, description="Time limit of an attempt, in seconds."
    )
    limit_key: Annotated[NulFreeText, Field(min_length=1, max_length=200)] | None = Field(
        None, description="Key that per-key limits apply to."
    )
    tags: Annotated[list[Tag], Field(max_length=50)] | None = Field(
        None, description="Labels to search for."
    )
    correlation_id: Annotated[NulFreeText, Field(max_length=200)] | None = Field(
        None, description="ID that related jobs share."
    )
    traceparent: Annotated[NulFreeText, Field(max_length=200)] | None = Field(
        None, description="W3C trace context that the job continues."
    )
    artifact_ref: Annotated[NulFreeText, Field(max_length=1000)] | None = Field(
        None, description="Reference to a payload in the artifact store."
    )
    far_future: bool | None = Field(
        None, description="Whether to allow a start more than a year from now (default: no)."
    )
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
        None, description="Idempotency key, unique per tenant and definition."
    )
    key_mode: Literal["retained", "active", "window"] | None = Field(
        None,
        description="How long the key is held: `retained` for 30 days (default), `active` until "
        "the job can no longer run, `window` for `key_window_s`. In Python: `dedupe`.",
    )
    key_window_s: Seconds | None = Field(
        None, description="Duration of the mode `window`, in seconds."
    )
    on_conflict: Literal["existing", "replace", "raise"] | None = Field(
        None,
        description="If the key is held: `existing` returns the job that holds it (default), "
        "`replace` replaces the content of that job if it has not started, `raise` fails with "
        "`duplicate_key`.",
    )
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


def created_job_to_json(job: Enqueued | EnqueuedOnce) -> dict[str, Json]:
    """Return the JSON of a CreatedJobView."""
    return {"id": job.job_id, "status": job.status}


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
    run_at: Moment | None = Field(description="Start time (null: as soon as possible).")


class Summary(BaseModel):
    """Number of jobs by queue and state; finished jobs only within the window."""

    window_s: float
    items: list[SummaryLine]
