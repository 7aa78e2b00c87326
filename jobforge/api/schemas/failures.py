"""Schemas of failure groups."""

from typing import Annotated

from pydantic import ConfigDict, Field

from jobforge.api.schemas.base_types import Body, Moment, NulFreeText, Reason, Whole
from jobforge.api.schemas.jobs import AttemptCount
from jobforge.types.operations import OperationOptions

Canary = Annotated[
    Whole, Field(ge=1, le=1000, description="Number of canary jobs; they must succeed.")
]
RedriveRate = Annotated[
    float, Field(gt=0, le=10_000, allow_inf_nan=False, description="Jobs per second.")
]


class Annotation(Body):
    """Notes on a group of dead jobs. Omitted fields are unchanged; null removes a value."""

    note: Annotated[NulFreeText, Field(max_length=10_000)] | None = None
    snoozed_until: Moment | None = None
    resolved_in: Annotated[NulFreeText, Field(max_length=200)] | None = Field(
        None, description="The build that fixes the failure."
    )


class Redrive(Body):
    """Retry dead jobs: first a few canary jobs, then, if these succeed, all others at a rate."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"canary": 1, "rate": 10}]})

    canary: Canary | None = None
    rate: RedriveRate | None = None
    attempts: AttemptCount | None = None
    reason: Reason | None = None

    def to_options(self) -> OperationOptions:
        return OperationOptions(self.reason, self.attempts, self.canary, self.rate)


class Discard(Body):
    reason: Reason | None = None
