"""Schemas of events."""

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobforge.api.schemas.base_types import Body, NulFreeText
from jobforge.errors import Json
from jobforge.types.events import DeliveryOutcome


class NewEvent(Body):
    """An event to emit."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "order.paid", "data": {"order": 7}}]}
    )

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$")]
    data: dict[NulFreeText, Json] = Field(
        default_factory=dict, description="At most 256 KiB, and 64 levels deep."
    )
    key: Annotated[NulFreeText, Field(min_length=1, max_length=255)] | None = Field(
        None,
        description="Each trigger creates one job for all events with the same name and key.",
        examples=["payment-1042"],
    )
    correlation_id: Annotated[NulFreeText, Field(min_length=1, max_length=255)] | None = Field(
        None, description="Correlation ID of the created jobs (default: the event's ID)."
    )
    traceparent: Annotated[str, Field(pattern=r"^[0-9a-f-]{1,128}$")] | None = None


class EventId(BaseModel):
    id: UUID


class EventReplay(BaseModel):
    """`replay` is the number of this replay in the event's deliveries."""

    replay: int


class TriggerTestBody(Body):
    """The past event to test a trigger with."""

    event_id: Annotated[UUID, Field(strict=False)]


class TriggerTestResult(BaseModel):
    """Outcome of a trigger's dry run on an event."""

    outcome: DeliveryOutcome
    reason: str | None
    job: dict[str, Json] | None = Field(
        description="The job that would be enqueued, with secrets masked."
    )
