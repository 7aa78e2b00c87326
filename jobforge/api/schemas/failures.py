"""Bodies of the routes on dead jobs and on operations over many jobs."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobforge.api.schemas.base_types import Body, Moment, Reason, Text, Whole
from jobforge.api.schemas.jobs import Attempts
from jobforge.types.jobs import JobFilter
from jobforge.types.operations import OperationKind, OperationOptions

Canary = Annotated[Whole, Field(ge=1, le=1000, description="So many first; they must end well.")]
Rate = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False, description="Jobs per second.")]
# An erasure is begun by deleting its tenant.
Kind = Literal[
    OperationKind.CANCEL, OperationKind.RETRY, OperationKind.REDRIVE, OperationKind.DISCARD
]
Equal = Annotated[Text, Field(max_length=255)]


class Annotation(Body):
    """What people know of a group of dead jobs. What is not given stays; null takes it back."""

    note: Annotated[Text, Field(max_length=10_000)] | None = None
    snoozed_until: Moment | None = None
    resolved_in: Annotated[Text, Field(max_length=200)] | None = Field(
        None, description="The build that mends it."
    )


class Redrive(Body):
    """Run the dead jobs again: a few first, and when these end well, all others at a rate."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"canary": 1, "rate": 10}]})

    canary: Canary | None = None
    rate: Rate | None = None
    attempts: Attempts | None = None
    reason: Reason | None = None

    def options(self) -> OperationOptions:
        return OperationOptions(self.reason, self.attempts, self.canary, self.rate)


class Discard(Body):
    reason: Reason | None = None


class Which(Body):
    """Which jobs; all that is given must hold. Nothing given is all of them."""

    state: list[Annotated[str, Field(max_length=20)]] | None = Field(None, examples=[["dead"]])
    definition: Equal | None = None
    queue: Equal | None = None
    tag: Equal | None = None
    source: Equal | None = None
    key: Equal | None = None
    correlation_id: Equal | None = None
    fingerprint: Equal | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None

    def filter(self) -> JobFilter:
        return JobFilter(**self.given())


class NewOperation(Redrive):
    """Something done to every job that matches, in the background."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"kind": "cancel", "filter": {"queue": "mail"}, "reason": "not today"}]
        }
    )

    kind: Kind
    filter: Which


class Counting(Body):
    """What an operation would act on."""

    kind: Kind
    filter: Which


class Counted(BaseModel):
    jobs: int


class OperationId(BaseModel):
    id: UUID
