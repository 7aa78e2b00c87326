"""Calls on a tenant's triggers, and calls of the scheduler."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from jobforge.calls.call import Call, JsonArgument
from jobforge.calls.results import NOTHING, many, one, value
from jobforge.errors import Json
from jobforge.types.triggers import (
    DueSchedules,
    Firing,
    Plan,
    Trigger,
    TriggerFilter,
    TriggerType,
    read_due_schedules,
)

EVERY_TRIGGER = TriggerFilter()


def create_trigger(
    type: TriggerType,  # noqa: A002 - the column's name
    settings: Mapping[str, Json],
    *,
    tenant_id: UUID | None = None,
) -> Call[UUID]:
    """Create a trigger and return its ID. The caller validates cron, templates and filter."""
    return Call(
        "create_trigger",
        {
            "type": type,
            "settings": JsonArgument.from_value(dict(settings), "settings"),
            "tenant_id": tenant_id,
        },
        value(UUID, "id"),
    )


def edit_trigger(
    trigger_id: UUID, changes: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[None]:
    """Change settings of a trigger; omitted settings are unchanged."""
    return Call(
        "edit_trigger",
        {
            "id": trigger_id,
            "changes": JsonArgument.from_value(dict(changes), "changes"),
            "tenant_id": tenant_id,
        },
        NOTHING,
    )


def delete_trigger(trigger_id: UUID, *, tenant_id: UUID | None = None) -> Call[None]:
    """Delete a trigger. Its jobs remain."""
    return Call("delete_trigger", {"id": trigger_id, "tenant_id": tenant_id}, NOTHING)


def get_trigger(trigger_id: UUID, *, tenant_id: UUID | None = None) -> Call[Trigger]:
    """Return a trigger. Raises NotFound."""
    return Call("get_trigger", {"id": trigger_id, "tenant_id": tenant_id}, one(Trigger))


def list_triggers(
    which: TriggerFilter = EVERY_TRIGGER,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[Trigger]]:
    """List triggers, newest first; `before` is the last ID of the previous page."""
    return Call(
        "list_triggers",
        {
            "filter": JsonArgument.from_value(which.to_json(), "filter"),
            "limit": limit,
            "before": before,
            "tenant_id": tenant_id,
        },
        many(Trigger),
    )


def list_firings(
    trigger_id: UUID,
    *,
    limit: int = 50,
    before: datetime | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[Firing]]:
    """List firings, latest first; `before` is the last fire_at of the previous page."""
    return Call(
        "list_firings",
        {"trigger_id": trigger_id, "limit": limit, "before": before, "tenant_id": tenant_id},
        many(Firing),
    )


def run_trigger(trigger_id: UUID, *, tenant_id: UUID | None = None) -> Call[datetime]:
    """Request a firing now. Returns the fire_at that identifies it."""
    return Call(
        "run_trigger", {"id": trigger_id, "tenant_id": tenant_id}, value(datetime, "fire_at")
    )


def backfill_trigger(
    trigger_id: UUID, times: Sequence[datetime], *, tenant_id: UUID | None = None
) -> Call[int]:
    """Request firings at past times. Returns their number. Times with a firing are skipped."""
    return Call(
        "backfill_trigger",
        {"id": trigger_id, "times": list(times), "tenant_id": tenant_id},
        value(int, "firings"),
    )


def due_schedules(*, limit: int = 1000, without: Sequence[UUID] = ()) -> Call[DueSchedules]:
    """A call returns a limited size: call again for the rest. `without` excludes schedules."""
    return Call(
        "due_schedules",
        {"limit": limit, "without": list(without)},
        value(dict).map(read_due_schedules),
    )


def record_firings(plans: Sequence[Plan]) -> Call[int | None]:
    """Return the number of firings recorded; None while another scheduler records some."""
    return Call(
        "record_firings",
        {"plans": JsonArgument.from_value([plan.to_json() for plan in plans], "plans")},
        value(int),
    )


def declare_triggers(
    declared: Sequence[Mapping[str, Json]], definitions: Sequence[str]
) -> Call[None]:
    """Declare schedules by name, tenant and settings; delete undeclared ones of `definitions`."""
    return Call(
        "declare_triggers",
        {
            "declared": JsonArgument.from_value([dict(each) for each in declared], "declared"),
            "definitions": list(definitions),
        },
        NOTHING,
    )
