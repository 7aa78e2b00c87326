"""Bodies of the routes on operations over many jobs."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobforge.api.schemas.base_types import Body, Moment, NulFreeText
from jobforge.api.schemas.failures import Redrive
from jobforge.types.jobs import JobFilter
from jobforge.types.operations import OperationKind

# An erasure is begun by deleting its tenant.
StartableKind = Literal[
    OperationKind.CANCEL, OperationKind.RETRY, OperationKind.REDRIVE, OperationKind.DISCARD
]
ExactText = Annotated[NulFreeText, Field(max_length=255)]


class JobFilterBody(Body):
    """Which jobs; all that is given must hold. Nothing given is all of them."""

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
    """Something done to every job that matches, in the background."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"kind": "cancel", "filter": {"queue": "mail"}, "reason": "not today"}]
        }
    )

    kind: StartableKind
    filter: JobFilterBody


class OperationCountBody(Body):
    """What an operation would act on."""

    kind: StartableKind
    filter: JobFilterBody


class OperationCount(BaseModel):
    jobs: int


class OperationId(BaseModel):
    id: UUID
