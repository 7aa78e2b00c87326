"""Bodies of the routes on operations over many jobs."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobforge.api.schemas.base_types import Body, Moment, Text
from jobforge.api.schemas.failures import Redrive
from jobforge.types.jobs import JobFilter
from jobforge.types.operations import OperationKind

# An erasure is begun by deleting its tenant.
Kind = Literal[
    OperationKind.CANCEL, OperationKind.RETRY, OperationKind.REDRIVE, OperationKind.DISCARD
]
Equal = Annotated[Text, Field(max_length=255)]


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
