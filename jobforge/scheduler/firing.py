"""Fires due schedules: which times fire, with what payload, and when each schedule is due next.

`plan_schedule` decides without I/O, by the time of the database's clock. `fire_due_schedules` reads
the due schedules, plans them and records the plans.
"""

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from uuid import UUID

from jobforge import calls
from jobforge.db.protocols import Link
from jobforge.errors import Denied, Invalid, JobForgeError, Json, Unavailable
from jobforge.observability import logs
from jobforge.payloads import schema_validation
from jobforge.payloads.schema_validation import Validator
from jobforge.scheduler import cron, template
from jobforge.scheduler.cron import Cron
from jobforge.scheduler.interval import Interval, parse_times
from jobforge.types.triggers import (
    CatchUp,
    DueSchedule,
    DueSchedules,
    FiringKind,
    FiringOutcome,
    NamedDefinition,
    Plan,
    PlannedFiring,
)

# A busy scheduler may be this late; a firing within this time does not count as missed.
ON_TIME_TOLERANCE = timedelta(seconds=60)

Times = Cron | Interval

_READ_AT_ONCE = 1_000
_RECORDED_AT_ONCE = 1_000  # firings per call
_YIELD_EVERY = 50
_INSTANT = timedelta(microseconds=1)
_MISSED = "missed: no scheduler was running in time"
# Errors of the connection, not of one schedule: all schedules wait until they are resolved.
_ENGINE_ERRORS = (Denied, Unavailable)


@dataclass(frozen=True, slots=True)
class FiringResult:
    """The result of one pass over due schedules.

    `has_more` asks for another pass at once; otherwise `wake_in_s` is the time until the next
    schedule is due.
    """

    has_more: bool
    wake_in_s: float | None = None
    recorded: int = 0


async def fire_due_schedules(link: Link) -> FiringResult:
    """Record the firings that are due. The engine's key of a firing prevents duplicates."""
    recorded = 0
    stuck: list[UUID] = []
    while True:
        due = await link.run(calls.due_schedules(limit=_READ_AT_ONCE, without=stuck))
        if not due.triggers:
            return FiringResult(
                has_more=False, wake_in_s=_seconds_to_wake(due, stuck), recorded=recorded
            )
        for plans in _batches(await _plan_all(due)):
            known = len(stuck)
            count = await _record(link, plans, stuck)
            recorded += count or 0
            is_idle = not count and len(stuck) == known
            if count is None or (is_idle and any(plan.firings for plan in plans)):
                # Another scheduler is recording these firings or has recorded them.
                return FiringResult(has_more=False, recorded=recorded)
        if not stuck:
            return FiringResult(has_more=True, recorded=recorded)
        # Read again without the stuck schedules, which could otherwise fill every answer.


def iter_plans(due: DueSchedules) -> Iterator[Plan]:
    """Yield the plan of each due schedule."""
    targets = {name: _build_target(name, found) for name, found in due.definitions.items()}
    for schedule in due.triggers:
        target = targets[schedule.definition, schedule.version]
        yield _plan_or_disable(schedule, due.now, target)


def plan_schedule(schedule: DueSchedule, now: datetime, definition: "TargetDefinition") -> Plan:
    """Return the plan of a schedule; one with an invalid cron is disabled, with the reason."""
    try:
        times = _parse_times(schedule.cron, schedule.zone)
    except Invalid as fault:
        return _plan_disabling(schedule, fault)
    if not schedule.is_due:
        firings = _plan_firings(schedule, schedule.pending, definition)
        return Plan(schedule, schedule.next_run_at, firings)
    due = _find_due_times(times, schedule, now)
    regular = ((at, FiringKind.SCHEDULE) for at in due.firing)
    firings = _plan_firings(schedule, [*schedule.pending, *regular], definition)
    return Plan(schedule, due.next, [*due.missed, *firings])


def build_template_values(
    schedule: DueSchedule, fire_at: datetime, previous: datetime | None
) -> Json:
    """Return the values that a payload's tags find under `schedule`."""
    local = fire_at.astimezone(cron.read_zone(schedule.zone))
    return {
        "fire_at": fire_at.astimezone(UTC).isoformat(),
        "scheduled_for": local.isoformat(),
        "date": local.date().isoformat(),
        "timezone": schedule.zone,
        "previous_fire_at": previous and previous.astimezone(UTC).isoformat(),
        "trigger_id": schedule.id,
        "label": schedule.label,
    }


@dataclass(frozen=True, slots=True)
class TargetDefinition:
    """The definition whose jobs a schedule enqueues."""

    name: str
    is_active: bool | None
    validator: Validator | None


@dataclass(frozen=True, slots=True)
class _DueTimes:
    firing: list[datetime]
    missed: list[PlannedFiring]
    next: datetime | None


def _find_due_times(times: Times, schedule: DueSchedule, now: datetime) -> _DueTimes:
    first = schedule.next_run_at or _find_first_time(times, schedule)
    end = now + _INSTANT
    if schedule.ends_at is not None:
        end = min(end, schedule.ends_at)
    if first is None or first >= end:
        return _DueTimes([], [], _drop_after_end(schedule, first))
    following = _find_next_time(schedule.cron, schedule.zone, first)
    if following is None or following > now:
        firing = (
            [first]
            if schedule.catch_up is not CatchUp.NONE or first > now - _on_time_tolerance(times)
            else []
        )
    else:
        firing = _select_catch_up_times(times, schedule, first, end, now)
        following = times.next_after(now)
    missed = _summarize_missed(times, first, firing[0] if firing else end)
    return _DueTimes(firing, missed, _drop_after_end(schedule, following))


def _find_first_time(times: Times, schedule: DueSchedule) -> datetime | None:
    since = schedule.since
    if schedule.starts_at is not None:
        since = max(since, schedule.starts_at - _INSTANT)
    return times.next_after(since)


def _select_catch_up_times(
    times: Times, schedule: DueSchedule, first: datetime, end: datetime, now: datetime
) -> list[datetime]:
    """Return the due times that fire under the schedule's catch-up option."""
    match schedule.catch_up:
        case CatchUp.NONE:
            start = max(first, now - _on_time_tolerance(times))
            return list(times.between(start, end))
        case CatchUp.LAST:
            return times.last_before(end, first=first, most=1)
        case CatchUp.ALL:
            return times.last_before(end, first=first, most=schedule.catch_up_limit)


def _on_time_tolerance(times: Times) -> timedelta:
    """Return how late a firing may be; at most the interval, so that a delay fires one job."""
    return (
        min(ON_TIME_TOLERANCE, times.length) if isinstance(times, Interval) else ON_TIME_TOLERANCE
    )


def _summarize_missed(times: Times, first: datetime, end: datetime) -> list[PlannedFiring]:
    """Return one skipped firing for all missed times, at the last of them."""
    if first >= end:
        return []
    # No time is found when the zone's rules have changed since `first` was computed.
    last = next(iter(times.last_before(end, first=first, most=1)), first)
    since = "" if last == first else f"; all runs since {first.isoformat()} were missed"
    reason = _MISSED + since
    return [PlannedFiring(last, FiringKind.SCHEDULE, outcome=FiringOutcome.SKIPPED, reason=reason)]


def _drop_after_end(schedule: DueSchedule, at: datetime | None) -> datetime | None:
    if at is None or (schedule.ends_at is not None and at >= schedule.ends_at):
        return None
    return at


def _plan_firings(
    schedule: DueSchedule,
    times: Sequence[tuple[datetime, FiringKind]],
    definition: TargetDefinition,
) -> list[PlannedFiring]:
    firings = []
    previous = schedule.last_fired_at
    payloads = _PayloadRenderer.from_schedule(schedule, definition)
    for fire_at, kind in times:
        firings.append(_plan_firing(payloads, fire_at, kind, previous))
        if kind is FiringKind.SCHEDULE:
            previous = fire_at
    return firings


@dataclass(frozen=True, slots=True)
class _PayloadRenderer:
    """Renders the payloads of a schedule from its template."""

    schedule: DueSchedule
    definition: TargetDefinition
    payload_template: template.Template | Invalid

    @classmethod
    def from_schedule(
        cls, schedule: DueSchedule, definition: TargetDefinition
    ) -> "_PayloadRenderer":
        try:
            return cls(
                schedule,
                definition,
                template.parse(schedule.payload, roots=template.SCHEDULE_ROOTS),
            )
        except Invalid as fault:
            return cls(schedule, definition, fault)

    def render(self, fire_at: datetime, previous: datetime | None) -> Json:
        """Return the payload of one firing; raise Invalid."""
        if isinstance(self.payload_template, Invalid):
            raise self.payload_template
        payload = self.payload_template.render(
            {"schedule": build_template_values(self.schedule, fire_at, previous)}
        )
        schema_validation.check_payload(self.definition.validator, payload)
        return payload


def _plan_firing(
    payloads: _PayloadRenderer, fire_at: datetime, kind: FiringKind, previous: datetime | None
) -> PlannedFiring:
    definition = payloads.definition
    if not definition.is_active:
        outcome, reason = FiringOutcome.SKIPPED, f"definition '{definition.name}' is not active"
        if definition.is_active is None:
            outcome, reason = FiringOutcome.FAILED, f"unknown definition '{definition.name}'"
        return PlannedFiring(fire_at, kind, outcome=outcome, reason=reason)
    try:
        payload = payloads.render(fire_at, previous)
    except Invalid as fault:
        return PlannedFiring(fire_at, kind, outcome=FiringOutcome.FAILED, reason=fault.message)
    run_at = _run_at(payloads.schedule, fire_at, kind)
    return PlannedFiring(fire_at, kind, run_at=run_at, payload=payload)


def _run_at(schedule: DueSchedule, fire_at: datetime, kind: FiringKind) -> datetime | None:
    """Return the start time with jitter, derived from the schedule's ID and fire time.

    So every scheduler computes the same time.
    """
    if schedule.jitter_s == 0 or kind is not FiringKind.SCHEDULE:
        return None
    digest = hashlib.sha256(f"{schedule.id} {fire_at.timestamp()}".encode()).digest()
    fraction = int.from_bytes(digest[:8]) / 2**64
    return fire_at + timedelta(seconds=fraction * schedule.jitter_s)


def _plan_disabling(schedule: DueSchedule, fault: Invalid) -> Plan:
    reason = f"{fault.field}: {fault.message}"
    firings = [
        PlannedFiring(each.fire_at, each.kind, outcome=FiringOutcome.FAILED, reason=reason)
        for each in schedule.pending
    ]
    return Plan(schedule, None, firings, fault=reason)


def _seconds_to_wake(due: DueSchedules, stuck: Sequence[UUID]) -> float | None:
    if due.wake_at is None or stuck:
        return None
    return (due.wake_at - due.now).total_seconds()


async def _record(link: Link, plans: Sequence[Plan], stuck: list[UUID]) -> int | None:
    """Record the plans and return the number of firings; add schedules that fail to `stuck`."""
    try:
        return await link.run(calls.record_firings(plans))
    except _ENGINE_ERRORS:
        raise
    except JobForgeError:
        return await _record_singly(link, plans, stuck)


async def _record_singly(link: Link, plans: Sequence[Plan], stuck: list[UUID]) -> int | None:
    """Record the plans one by one.

    The engine refuses one of them, or another transaction locks a row that one needs. The other
    plans must not wait for it.
    """
    recorded = 0
    for plan in plans:
        try:
            count = await link.run(calls.record_firings([plan]))
        except _ENGINE_ERRORS:
            raise
        except JobForgeError as error:
            logs.emit("schedule.stuck", "warning", trigger=plan.of.id, error=error.message)
            stuck.append(UUID(plan.of.id))
            continue
        if count is None:
            return None
        recorded += count
    return recorded


async def _plan_all(due: DueSchedules) -> list[Plan]:
    plans = []
    for plan in iter_plans(due):
        plans.append(plan)
        if len(plans) % _YIELD_EVERY == 0:
            await asyncio.sleep(0)  # yield to the worker's other loops
    return plans


def _plan_or_disable(schedule: DueSchedule, now: datetime, target: TargetDefinition) -> Plan:
    """Plan a schedule, or disable it on any error, so that other schedules are not affected."""
    try:
        return plan_schedule(schedule, now, target)
    except Exception as error:  # noqa: BLE001 - the schedule is disabled with this reason
        logs.emit("schedule.failed", "error", trigger=schedule.id, error=repr(error))
        return _plan_disabling(schedule, Invalid(repr(error), field="schedule"))


def _build_target(name: tuple[str, int | None], definition: NamedDefinition) -> TargetDefinition:
    key, version = name
    text = key if version is None else f"{key}@{version}"
    return TargetDefinition(
        text, definition.is_active, schema_validation.compile_validator(text, definition.parameters)
    )


def _batches(plans: Sequence[Plan]) -> Iterator[list[Plan]]:
    """Split plans into batches of limited firings; a plan over the limit is its own batch."""
    batch: list[Plan] = []
    firings = 0
    for plan in plans:
        if batch and firings + len(plan.firings) > _RECORDED_AT_ONCE:
            yield batch
            batch, firings = [], 0
        batch.append(plan)
        firings += len(plan.firings)
    if batch:
        yield batch


@lru_cache(maxsize=4096)
def _parse_times(text: str, zone: str) -> Times:
    return parse_times(text, zone)


@lru_cache(maxsize=4096)
def _find_next_time(text: str, zone: str, first: datetime) -> datetime | None:
    """Return the next fire time; cached, because many schedules have the same times."""
    return _parse_times(text, zone).next_after(first)
