"""Calls on a tenant's triggers, and calls of the scheduler."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from jobforge.calls.call import Call, JsonArgument, build_call
from jobforge.calls.results import NOTHING, many, one, read_document, value
from jobforge.errors import Json
from jobforge.types.triggers import (
    DueSchedule,
    DueSchedules,
    Firing,
    NamedDefinition,
    Plan,
    Trigger,
    TriggerFilter,
    TriggerType,
)

EVERY_TRIGGER = TriggerFilter()


def create_trigger(
    type: TriggerType,  # noqa: A002 - the column's name
    settings: Mapping[str, Json],
    *,
    tenant_id: UUID | None = None,
) -> Call[UUID]:
    """Create a trigger and return its ID. The caller validates cron, templates and filter."""
    return build_call(
        "create_trigger", value(UUID, "id"), type=type, settings=settings, tenant_id=tenant_id
    )


def edit_trigger(
    trigger_id: UUID, changes: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[None]:
    """Change settings of a trigger; omitted settings are unchanged."""
    return build_call("edit_trigger", NOTHING, id=trigger_id, changes=changes, tenant_id=tenant_id)


def delete_trigger(trigger_id: UUID, *, tenant_id: UUID | None = None) -> Call[None]:
    """Delete a trigger. Its jobs remain."""
    return build_call("delete_trigger", NOTHING, id=trigger_id, tenant_id=tenant_id)


def get_trigger(trigger_id: UUID, *, tenant_id: UUID | None = None) -> Call[Trigger]:
    """Return a trigger. Raises NotFound."""
    return build_call("get_trigger", one(Trigger), id=trigger_id, tenant_id=tenant_id)


def list_triggers(
    which: TriggerFilter = EVERY_TRIGGER,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[Trigger]]:
    """List triggers, newest first; `before` is the last ID of the previous page."""
    return build_call(
        "list_triggers",
        many(Trigger),
        filter=which,
        limit=limit,
        before=before,
        tenant_id=tenant_id,
    )


def list_firings(
    trigger_id: UUID,
    *,
    limit: int = 50,
    before: datetime | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[Firing]]:
    """List firings, latest first; `before` is the last fire_at of the previous page."""
    return build_call(
        "list_firings",
        many(Firing),
        trigger_id=trigger_id,
        limit=limit,
        before=before,
        tenant_id=tenant_id,
    )


def run_trigger(trigger_id: UUID, *, tenant_id: UUID | None = None) -> Call[datetime]:
    """Request a firing now. Returns the fire_at that identifies it."""
    return build_call("run_trigger", value(datetime, "fire_at"), id=trigger_id, tenant_id=tenant_id)


def backfill_trigger(
    trigger_id: UUID, times: Sequence[datetime], *, tenant_id: UUID | None = None
) -> Call[int]:
    """Request firings at past times. Returns their number. Times with a firing are skipped."""
    return build_call(
        "backfill_trigger",
        value(int, "firings"),
        id=trigger_id,
        times=list(times),
        tenant_id=tenant_id,
    )


def due_schedules(*, limit: int = 1000, without: Sequence[UUID] = ()) -> Call[DueSchedules]:
    """A call returns a limited size: call again for the rest. `without` excludes schedules."""
    return build_call("due_schedules", _DUE_SCHEDULES, limit=limit, without=list(without))


def record_firings(plans: Sequence[Plan]) -> Call[int | None]:
    """Return the number of firings recorded; None while another scheduler records some."""
    return build_call(
        "record_firings",
        value(int),
        plans=JsonArgument.from_value([plan.to_json() for plan in plans], "plans"),
    )


def declare_triggers(
    declared: Sequence[Mapping[str, Json]], definitions: Sequence[str]
) -> Call[None]:
    """Declare triggers by name, type, tenant, settings; delete undeclared ones of `definitions`."""
    return build_call(
        "declare_triggers",
        NOTHING,
        declared=JsonArgument.from_value([dict(each) for each in declared], "declared"),
        definitions=list(definitions),
    )


def _due_schedules(document: Json) -> DueSchedules:
    wake_at = document["wake_at"]
    return DueSchedules(
        datetime.fromisoformat(document["now"]),
        wake_at and datetime.fromisoformat(wake_at),
        [read_document(DueSchedule, each) for each in document["triggers"]],
        {
            (each["definition"], each["version"]): read_document(NamedDefinition, each)
            for each in document["definitions"]
        },
    )


_DUE_SCHEDULES = value(dict).map(_due_schedules)
