"""Schemas of bulk operations."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobforge.api.schemas.base_types import Body, Moment, NulFreeText
from jobforge.api.schemas.failures import Redrive
from jobforge.types.jobs import JobFilter
from jobforge.types.operations import OperationKind

# Erasure cannot be started here: deleting the tenant starts it.
StartableKind = Literal[
    OperationKind.CANCEL, OperationKind.RETRY, OperationKind.REDRIVE, OperationKind.DISCARD
]
ExactText = Annotated[NulFreeText, Field(max_length=255)]


class JobFilterBody(Body):
    """Filter for jobs. A job must match all fields; an empty filter matches all jobs."""

    state: list[Annotated[str, Field(max_length=20)]] | None = Field(None, examples=[["dead"]])
    definition: ExactText | None = None
    queue: ExactText | None = None
    tag: ExactText | None = None
    source: ExactText | None = None
    key: ExactText | None = None
    correlation_id: ExactText | None = None
    fingerprint: ExactText | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None

    def to_job_filter(self) -> JobFilter:
        return JobFilter(**self.given_fields())


class NewOperation(Redrive):
    """A bulk action on all jobs that match, run in the background."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"kind": "cancel", "filter": {"queue": "mail"}, "reason": "not today"}]
        }
    )

    kind: StartableKind
    filter: JobFilterBody


class OperationCountBody(Body):
    """The operation whose jobs to count."""

    kind: StartableKind
    filter: JobFilterBody


class OperationCount(BaseModel):
    jobs: int


class OperationId(BaseModel):
    id: UUID
