"""Schedules that are due: which of their times fire, with what payload, and when they are due next.

`plan` decides, by the database's clock and without asking anybody; `fire` is the step that reads
what is due, plans it and has it recorded.
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
from jobforge.payloads import json_schema
from jobforge.payloads.json_schema import Validator
from jobforge.scheduler import cron, template
from jobforge.scheduler.cron import Cron
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

# A firing that is no later than this was not missed: it is what a busy scheduler may take.
ON_TIME = timedelta(seconds=60)

_READ_AT_ONCE = 1_000
_RECORDED_AT_ONCE = 1_000  # firings
_PLANNED_IN_A_TURN = 50
_INSTANT = timedelta(microseconds=1)
_MISSED = "missed: no scheduler was there in time"
# Not of a schedule, that is: all of them wait until it is over.
_NOBODYS_FAULT = (Denied, Unavailable)


@dataclass(frozen=True, slots=True)
class Next:
    """What a look at the schedules found: whether to look again at once, else when."""

    has_more: bool
    wake_in_s: float | None = None
    recorded: int = 0


async def fire(line: Link) -> Next:
    """Makes the firings that are due. Whatever happens on the way, none is made twice."""
    recorded = 0
    stuck: list[UUID] = []
    while True:
        due = await line.run(calls.due_schedules(limit=_READ_AT_ONCE, without=stuck))
        if not due.triggers:
            return Next(has_more=False, wake_in_s=_wake_in_s(due, stuck), recorded=recorded)
        for plans in _batches(await _plan_all(due)):
            known = len(stuck)
            count = await _record(line, plans, stuck)
            recorded += count or 0
            is_idle = not count and len(stuck) == known
            if count is None or (is_idle and any(each.firings for each in plans)):
                # Somebody else is at it, or was quicker: one of us is enough.
                return Next(has_more=False, recorded=recorded)
        if not stuck:
            return Next(has_more=True, recorded=recorded)
        # The rest now: the next look begins with the same ones, which can fill its answer.


def plans_of(due: DueSchedules) -> Iterator[Plan]:
    """What is to come of all that is due, one by one."""
    targets = {name: _target(name, found) for name, found in due.definitions.items()}
    for schedule in due.triggers:
        target = targets[schedule.definition, schedule.version]
        yield _planned(schedule, due.now, target)


def plan(schedule: DueSchedule, now: datetime, definition: "Target") -> Plan:
    """What is to come of a schedule; one that cannot be read is disabled, and says why."""
    try:
        times = _read(schedule.cron, schedule.zone)
    except Invalid as fault:
        return _unreadable(schedule, fault)
    asked = [(each.fire_at, each.kind) for each in schedule.pending]
    if not schedule.is_due:
        return Plan(schedule, schedule.next_run_at, _make(schedule, asked, definition))
    found = _due_times(times, schedule, now)
    firings = _make(
        schedule, [*asked, *((at, FiringKind.SCHEDULE) for at in found.firing)], definition
    )
    return Plan(schedule, found.next, [*found.missed, *firings])


def values_of(schedule: DueSchedule, fire_at: datetime, previous: datetime | None) -> Json:
    """What a payload's tags find under `schedule`."""
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
class Target:
    """The definition that a schedule enqueues jobs of."""

    name: str
    is_active: bool | None
    validator: Validator | None


@dataclass(frozen=True, slots=True)
class _Found:
    firing: list[datetime]
    missed: list[PlannedFiring]
    next: datetime | None


def _due_times(times: Cron, schedule: DueSchedule, now: datetime) -> _Found:
    first = schedule.next_run_at or _first(times, schedule)
    end = now + _INSTANT
    if schedule.ends_at is not None:
        end = min(end, schedule.ends_at)
    if first is None or first >= end:
        return _Found([], [], _before_the_end(schedule, first))
    following = _following(schedule.cron, schedule.zone, first)
    if following is None or following > now:
        firing = [first] if schedule.catch_up is not CatchUp.NONE or first > now - ON_TIME else []
    else:
        firing = _caught_up(times, schedule, first, end, now)
        following = times.next_after(now)
    missed = _missed(times, first, firing[0] if firing else end)
    return _Found(firing, missed, _before_the_end(schedule, following))


def _first(times: Cron, schedule: DueSchedule) -> datetime | None:
    since = schedule.since
    if schedule.starts_at is not None:
        since = max(since, schedule.starts_at - _INSTANT)
    return times.next_after(since)


def _caught_up(
    times: Cron, schedule: DueSchedule, first: datetime, end: datetime, now: datetime
) -> list[datetime]:
    """Of all times that are due, those that fire."""
    match schedule.catch_up:
        case CatchUp.NONE:
            return list(times.between(max(first, now - ON_TIME), end))
        case CatchUp.LAST:
            return times.last_before(end, first=first, most=1)
        case CatchUp.ALL:
            return times.last_before(end, first=first, most=schedule.catch_up_limit)


def _missed(times: Cron, first: datetime, end: datetime) -> list[PlannedFiring]:
    """One entry for all that were missed, at the last of them."""
    if first >= end:
        return []
    # There is none when the rules of the zone have changed since `first` was found.
    last = next(iter(times.last_before(end, first=first, most=1)), first)
    since = "" if last == first else f"; so were all since {first.isoformat()}"
    reason = _MISSED + since
    return [PlannedFiring(last, FiringKind.SCHEDULE, outcome=FiringOutcome.SKIPPED, reason=reason)]


def _before_the_end(schedule: DueSchedule, at: datetime | None) -> datetime | None:
    if at is None or (schedule.ends_at is not None and at >= schedule.ends_at):
        return None
    return at


def _make(
    schedule: DueSchedule, times: Sequence[tuple[datetime, FiringKind]], definition: Target
) -> list[PlannedFiring]:
    firings = []
    previous = schedule.last_fired_at
    payloads = _Payloads.of(schedule, definition)
    for fire_at, kind in times:
        firings.append(_firing(payloads, fire_at, kind, previous))
        if kind is FiringKind.SCHEDULE:
            previous = fire_at
    return firings


@dataclass(frozen=True, slots=True)
class _Payloads:
    """A schedule's payloads, from its template."""

    schedule: DueSchedule
    definition: Target
    read: template.Template | Invalid

    @classmethod
    def of(cls, schedule: DueSchedule, definition: Target) -> "_Payloads":
        try:
            return cls(
                schedule,
                definition,
                template.parse(schedule.payload, roots=template.SCHEDULE_ROOTS),
            )
        except Invalid as fault:
            return cls(schedule, definition, fault)

    def make(self, fire_at: datetime, previous: datetime | None) -> Json:
        """Raises Invalid."""
        if isinstance(self.read, Invalid):
            raise self.read
        payload = self.read.render({"schedule": values_of(self.schedule, fire_at, previous)})
        json_schema.check(self.definition.validator, payload)
        return payload


def _firing(
    payloads: _Payloads, fire_at: datetime, kind: FiringKind, previous: datetime | None
) -> PlannedFiring:
    definition = payloads.definition
    if not definition.is_active:
        outcome, reason = FiringOutcome.SKIPPED, f"definition {definition.name} is not active"
        if definition.is_active is None:
            outcome, reason = FiringOutcome.FAILED, f"unknown definition {definition.name}"
        return PlannedFiring(fire_at, kind, outcome=outcome, reason=reason)
    try:
        payload = payloads.make(fire_at, previous)
    except Invalid as fault:
        return PlannedFiring(fire_at, kind, outcome=FiringOutcome.FAILED, reason=fault.message)
    run_at = _run_at(payloads.schedule, fire_at, kind)
    return PlannedFiring(fire_at, kind, run_at=run_at, payload=payload)


def _run_at(schedule: DueSchedule, fire_at: datetime, kind: FiringKind) -> datetime | None:
    """Jitter comes of what fires and when, so every scheduler finds the same."""
    if schedule.jitter_s == 0 or kind is not FiringKind.SCHEDULE:
        return None
    digest = hashlib.sha256(f"{schedule.id} {fire_at.timestamp()}".encode()).digest()
    share = int.from_bytes(digest[:8]) / 2**64
    return fire_at + timedelta(seconds=share * schedule.jitter_s)


def _unreadable(schedule: DueSchedule, fault: Invalid) -> Plan:
    reason = f"{fault.field}: {fault.message}"
    firings = [
        PlannedFiring(each.fire_at, each.kind, outcome=FiringOutcome.FAILED, reason=reason)
        for each in schedule.pending
    ]
    return Plan(schedule, None, firings, fault=reason)


def _wake_in_s(due: DueSchedules, stuck: Sequence[UUID]) -> float | None:
    if due.wake_at is None or stuck:
        return None
    return (due.wake_at - due.now).total_seconds()


async def _record(line: Link, plans: Sequence[Plan], stuck: list[UUID]) -> int | None:
    """Record the plans and return the number of firings; add schedules that fail to `stuck`."""
    try:
        return await line.run(calls.record_firings(plans))
    except _NOBODYS_FAULT:
        raise
    except JobForgeError:
        return await _record_singly(line, plans, stuck)


async def _record_singly(line: Link, plans: Sequence[Plan], stuck: list[UUID]) -> int | None:
    """One of them has what the engine cannot take, or somebody's transaction holds what it needs.
    The others must not wait for it.
    """
    recorded = 0
    for each in plans:
        try:
            count = await line.run(calls.record_firings([each]))
        except _NOBODYS_FAULT:
            raise
        except JobForgeError as error:
            logs.emit("schedule.stuck", "warning", trigger=each.of.id, error=error.message)
            stuck.append(UUID(each.of.id))
            continue
        if count is None:
            return None
        recorded += count
    return recorded


async def _plan_all(due: DueSchedules) -> list[Plan]:
    plans = []
    for each in plans_of(due):
        plans.append(each)
        if len(plans) % _PLANNED_IN_A_TURN == 0:
            await asyncio.sleep(0)  # a worker's other loops have their turn
    return plans


def _planned(schedule: DueSchedule, now: datetime, target: Target) -> Plan:
    """Whatever is the matter with one schedule, the others must not suffer for it."""
    try:
        return plan(schedule, now, target)
    except Exception as error:  # noqa: BLE001 - it is disabled, and says why
        logs.emit("schedule.failed", "error", trigger=schedule.id, error=repr(error))
        return _unreadable(schedule, Invalid(repr(error), field="schedule"))


def _target(name: tuple[str, int | None], found: NamedDefinition) -> Target:
    key, version = name
    text = key if version is None else f"{key}@{version}"
    return Target(text, found.is_active, json_schema.compiled(text, found.parameters))


def _batches(plans: Sequence[Plan]) -> Iterator[list[Plan]]:
    """As many plans as have no more than so many firings; one alone may have more."""
    batch: list[Plan] = []
    firings = 0
    for each in plans:
        if batch and firings + len(each.firings) > _RECORDED_AT_ONCE:
            yield batch
            batch, firings = [], 0
        batch.append(each)
        firings += len(each.firings)
    if batch:
        yield batch


@lru_cache(maxsize=4096)
def _read(text: str, zone: str) -> Cron:
    return cron.parse(text, zone)


@lru_cache(maxsize=4096)
def _following(text: str, zone: str, first: datetime) -> datetime | None:
    """Many schedules have the same times."""
    return _read(text, zone).next_after(first)
