"""Calls on a tenant's triggers, and calls of the scheduler."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.rows import Row, Rows
from jobforge.errors import Json
from jobforge.types.jsonb import encode
from jobforge.types.triggers import (
    CatchUp,
    DueSchedules,
    Firing,
    FiringKind,
    FiringOutcome,
    Overlap,
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
        "select jobforge.create_trigger(%s, %s::jsonb, %s)",
        (type, encode(dict(settings), "settings"), tenant_id),
        rows.value,
    )


def edit_trigger(
    trigger_id: UUID, changes: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[None]:
    """Change settings of a trigger; omitted settings are unchanged."""
    return Call(
        "select jobforge.edit_trigger(%s, %s::jsonb, %s)",
        (trigger_id, encode(dict(changes), "changes"), tenant_id),
        rows.nothing,
    )


def delete_trigger(trigger_id: UUID, *, tenant_id: UUID | None = None) -> Call[None]:
    """Delete a trigger. Its jobs remain."""
    return Call("select jobforge.delete_trigger(%s, %s)", (trigger_id, tenant_id), rows.nothing)


def get_trigger(trigger_id: UUID, *, tenant_id: UUID | None = None) -> Call[Trigger]:
    """Return a trigger. Raises NotFound."""
    return Call(
        """
        select id, type, label, definition, version, queue, priority, payload, enabled, fault,
               declared, cron, timezone, zone, catch_up, catch_up_limit, overlap, jitter_s,
               starts_at, ends_at, event, filter, dedupe_window_s, dedupe_key, deduplicated,
               last_fired_at, next_run_at, created_at, updated_at, created_by
          from jobforge.get_trigger(%s, %s)
        """,
        (trigger_id, tenant_id),
        _trigger,
    )


def list_triggers(
    which: TriggerFilter = EVERY_TRIGGER,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[Trigger]]:
    """List triggers, newest first; `before` is the last ID of the previous page."""
    return Call(
        """
        select id, type, label, definition, version, queue, priority, payload, enabled, fault,
               declared, cron, timezone, zone, catch_up, catch_up_limit, overlap, jitter_s,
               starts_at, ends_at, event, filter, dedupe_window_s, dedupe_key, deduplicated,
               last_fired_at, next_run_at, created_at, updated_at, created_by
          from jobforge.list_triggers(%s::jsonb, %s::integer, %s, %s)
        """,
        (encode(which.to_json(), "filter"), limit, before, tenant_id),
        _triggers,
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
        """
        select fire_at, at, kind, outcome, reason, job_id, created_by
          from jobforge.list_firings(%s, %s::integer, %s, %s)
        """,
        (trigger_id, limit, before, tenant_id),
        _firings,
    )


def run_trigger(trigger_id: UUID, *, tenant_id: UUID | None = None) -> Call[datetime]:
    """Request a firing now; return the fire_at that identifies it."""
    return Call("select jobforge.run_trigger(%s, %s)", (trigger_id, tenant_id), rows.value)


def backfill_trigger(
    trigger_id: UUID, times: Sequence[datetime], *, tenant_id: UUID | None = None
) -> Call[int]:
    """Request firings at past times; return their number. Times with a firing are skipped."""
    return Call(
        "select jobforge.backfill_trigger(%s, %s::timestamptz[], %s)",
        (trigger_id, list(times), tenant_id),
        rows.value,
    )


def due_schedules(*, limit: int = 1000, without: Sequence[UUID] = ()) -> Call[DueSchedules]:
    """A call returns a limited size: call again for the rest. `without` excludes schedules."""
    return Call(
        "select jobforge.due_schedules(%s::integer, %s::uuid[])",
        (limit, list(without)),
        _due_schedules,
    )


def record_firings(plans: Sequence[Plan]) -> Call[int | None]:
    """Return the number of firings recorded; None while another scheduler records some."""
    return Call(
        "select jobforge.record_firings(%s::jsonb)",
        (encode([plan.to_json() for plan in plans], "plans"),),
        rows.value,
    )


def declare_triggers(
    declared: Sequence[Mapping[str, Json]], definitions: Sequence[str]
) -> Call[None]:
    """Declare schedules by name, tenant and settings; delete undeclared ones of `definitions`."""
    return Call(
        "select jobforge.declare_triggers(%s::jsonb, %s::text[])",
        (encode([dict(each) for each in declared], "declared"), list(definitions)),
        rows.nothing,
    )


def _triggers(rows: Rows) -> list[Trigger]:
    return list(map(_read_trigger, rows))


def _trigger(rows: Rows) -> Trigger:
    return _read_trigger(rows[0])


def _firings(rows: Rows) -> list[Firing]:
    return [
        Firing(fire_at, at, FiringKind(kind), FiringOutcome(outcome), *others)
        for fire_at, at, kind, outcome, *others in rows
    ]


def _due_schedules(rows: Rows) -> DueSchedules:
    return read_due_schedules(rows[0][0])


def _read_trigger(row: Row) -> Trigger:
    trigger_id, kind, *others = row
    catch_up, overlap = others[12], others[14]
    others[12], others[14] = CatchUp(catch_up), Overlap(overlap)
    return Trigger(trigger_id, TriggerType(kind), *others)
