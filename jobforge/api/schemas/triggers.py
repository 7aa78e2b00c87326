"""Schemas of triggers."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobforge.api.schemas.base_types import (
    Body,
    Count,
    DefinitionKey,
    Moment,
    NulFreeText,
    QueueName,
    ShortName,
    Whole,
)
from jobforge.errors import Json
from jobforge.scheduler.cron import MAX_LENGTH, ClockChange
from jobforge.types.triggers import CatchUp, Overlap, TriggerType

CronText = Annotated[
    NulFreeText,
    Field(
        min_length=1,
        max_length=MAX_LENGTH,
        description="Cron expression with five fields, a name such as @daily, or an interval such"
        " as @every 30s.",
        examples=["0 9 * * MON-FRI"],
    ),
]
TimeZoneName = Annotated[
    NulFreeText,
    Field(
        min_length=1,
        max_length=64,
        description="IANA time zone, or `tenant` for the tenant's zone.",
        examples=["Europe/Berlin"],
    ),
]
TriggerPriority = Annotated[Whole, Field(ge=-32768, le=32767)]
EventPattern = Annotated[
    NulFreeText,
    Field(
        min_length=1,
        max_length=202,
        examples=["order.paid"],
        description="Event name, or a prefix such as `order.*`.",
    ),
]
_EXAMPLE_SCHEDULE: dict[str, Any] = {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}


class TriggerChanges(Body):
    """Omitted fields are unchanged. Which settings are allowed depends on the trigger's type."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"enabled": False}]})

    label: ShortName | None = None
    definition: DefinitionKey | None = None
    version: Count | None = Field(None, description="Version of the job (null: the newest).")
    queue: QueueName | None = Field(None, description="Queue (null: the definition's queue).")
    priority: TriggerPriority | None = None
    payload: dict[str, Json] | None = Field(
        None,
        description="Template; tags such as {{schedule.fire_at}} or {{event.path}} are replaced.",
    )
    enabled: bool | None = None
    cron: CronText | None = None
    timezone: TimeZoneName | None = None
    catch_up: Annotated[CatchUp, Field(strict=False)] | None = None
    catch_up_limit: Annotated[Whole, Field(ge=1, le=100)] | None = None
    overlap: Annotated[Overlap, Field(strict=False)] | None = None
    jitter_s: Annotated[Whole, Field(ge=0, le=3600)] | None = None
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    event: EventPattern | None = None
    filter: Annotated[list[Json], Field(max_length=50)] | None = None
    dedupe_window_s: Annotated[Whole, Field(ge=0, le=2_592_000)] | None = None
    dedupe_key: Annotated[NulFreeText, Field(min_length=1, max_length=2000)] | None = None


class NewTrigger(TriggerChanges):
    """A trigger to create. A schedule requires `cron`; an event trigger requires `event`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "schedule",
                    "label": "Morning report",
                    "definition": "send_welcome",
                    **_EXAMPLE_SCHEDULE,
                }
            ]
        }
    )

    type: Annotated[TriggerType, Field(strict=False)]
    label: ShortName
    definition: DefinitionKey

    def to_settings(self) -> dict[str, Any]:
        """Return the settings of the request except null values."""
        settings = {name: value for name, value in self.given_fields().items() if value is not None}
        del settings["type"]
        return settings


class CreatedTriggerView(BaseModel):
    id: UUID


class FireAt(BaseModel):
    fire_at: datetime = Field(description="Identifies the firing among the trigger's firings.")


class Backfill(Body):
    """The schedule's times from `start` to `end`, or the given `times`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}]
        }
    )

    start: Moment | None = None
    end: Moment | None = None
    times: Annotated[list[Moment], Field(max_length=1000)] | None = None


class BackfillResult(BaseModel):
    firings: int = Field(description="Number of new firings; times with a firing are skipped.")


class PreviewRequest(Body):
    """A schedule that is not saved yet, or a payload template for a given event."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE_SCHEDULE]})

    cron: CronText | None = None
    timezone: TimeZoneName = "UTC"
    after: Moment | None = Field(None, description="Start of the preview (default: now).")
    count: Annotated[Whole, Field(ge=1, le=100)] = 5
    payload: dict[str, Json] | None = None
    event: dict[str, Json] | None = Field(None, description="Data of an event.")
    event_id: Annotated[UUID, Field(strict=False)] | None = Field(
        None, description="A stored event to use instead of `event`; includes its `meta`."
    )


class PreviewedRun(BaseModel):
    at: datetime
    local: str
    change: ClockChange | None = Field(description="Effect of a daylight saving change on the run.")


class NextRuns(BaseModel):
    """Description and next runs of a schedule, also in local time; empty for event triggers."""

    description: str | None
    timezone: str
    runs: list[PreviewedRun]


class Preview(NextRuns):
    payload: dict[str, Json] | None


class DeclaredTrigger(Body):
    """A trigger declared in code; `settings` are those of a trigger."""

    name: DefinitionKey
    type: Annotated[TriggerType, Field(strict=False)]
    tenant: ShortName = Field(description="Tenant ID or slug, or * for every tenant.")
    settings: dict[str, Json]


class DeclaredTriggers(Body):
    declared: Annotated[list[DeclaredTrigger], Field(max_length=1000)]
    definitions: Annotated[list[DefinitionKey], Field(max_length=10_000)]
