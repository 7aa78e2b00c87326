"""Dispatches events: reads the outbox, lets triggers react, and has their jobs made.

Two calls for each batch. Any number of schedulers may do so at once: an event belongs to whoever
takes it out of the outbox, and that happens in the transaction that makes its jobs.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from jobforge import calls
from jobforge.db.outage import Line
from jobforge.errors import Contended, Denied, JobForgeError, Json, Unavailable
from jobforge.observability import logs
from jobforge.observability.metrics import Meters
from jobforge.payloads.json_schema import Validator, compiled
from jobforge.scheduler import reaction
from jobforge.scheduler.reaction import Occurrence, Reader
from jobforge.types.events import (
    DeliveryOutcome,
    Dispatched,
    EventTrigger,
    PendingEvent,
    PendingEvents,
    Reaction,
)

_FIRST = UUID(int=0)
_MOST_EVENTS = 500  # at once
_BREATH = 100  # events, after which other tasks have their turn
_MOST_REMEMBERED = 1000
_LATE_MS = 2000
_LOOKS_BACK_EVERY_S = 1.0
_LOOKS_BACK_AFTER = 20  # times as long as it took the last time


class Dispatcher:
    """What one scheduler knows from batch to batch."""

    def __init__(self, meters: Meters | None = None) -> None:
        self._meters = meters or Meters()
        self._floor = _Floor()
        self._validators: dict[tuple[str, int | None], tuple[Json, Validator | None]] = {}

    async def dispatch(self, line: Line) -> bool:
        """One batch of events; True when there may be more."""
        started = time.monotonic()
        after = self._floor.at(started)
        pending = await line.run(calls.pending_events(limit=_MOST_EVENTS, after=after))
        self._floor.looked(after, started, time.monotonic())
        if not pending.events:
            return False
        counts = await self._record(line, await self._reactions(pending))
        self._meters.events += len(pending.events)
        if after is not None:
            self._floor.rise(pending.events[-1].id)
        if counts.get(DeliveryOutcome.FAILED):
            logs.emit("event.failed", "warning", deliveries=counts[DeliveryOutcome.FAILED])
        return True

    async def _reactions(self, pending: PendingEvents) -> list[Dispatched]:
        readers = {
            trigger.id: reaction.read(trigger, self._validator(trigger, pending))
            for trigger in pending.triggers.values()
        }
        dispatched = []
        for number, event in enumerate(pending.events, 1):
            dispatched.append(Dispatched(event.id, _reactions_to(event, readers)))
            if number % _BREATH == 0:
                await asyncio.sleep(0)
        return dispatched

    def _validator(self, trigger: EventTrigger, pending: PendingEvents) -> Validator | None:
        named = trigger.definition, trigger.version
        schema = pending.parameters.get(named)
        known = self._validators.get(named)
        if known is None or known[0] != schema:
            if len(self._validators) >= _MOST_REMEMBERED:
                self._validators.clear()
            known = self._validators[named] = schema, compiled(trigger.definition, schema)
        return known[1]

    async def _record(self, line: Line, dispatched: Sequence[Dispatched]) -> dict[str, int]:
        try:
            return await line.run(calls.record_deliveries(dispatched))
        except (Unavailable, Denied):
            raise  # the events come again
        except JobForgeError as error:
            if len(dispatched) == 1:
                return await _fail(line, dispatched[0], error)
        # One of them has what the engine cannot take, or somebody's transaction holds a job that
        # waits for it; the others must not wait for that.
        counts: dict[str, int] = {}
        for each in dispatched:
            for outcome, number in (await self._record(line, [each])).items():
                counts[outcome] = counts.get(outcome, 0) + number
        return counts


@dataclass(slots=True)
class _Floor:
    """Below which place of the outbox there is nothing to be found.

    While somebody's open transaction holds up vacuum, entries of events long dispatched stay in the
    index and every look from its left end passes them all. So a look begins at what was dispatched
    last, less the time that a transaction may take to commit. Once in a while, and more seldom the
    longer that takes, all of it is looked at, with a share for each tenant: what committed later
    still is found then, and whoever waits behind another tenant's many.
    """

    _place: UUID = _FIRST
    _look_back_at: float = 0.0

    def at(self, now: float) -> UUID | None:
        """Where to begin; None is to look at everything."""
        return self._place if now < self._look_back_at else None

    def looked(self, after: UUID | None, started: float, ended: float) -> None:
        if after is None:
            pause = max(_LOOKS_BACK_EVERY_S, _LOOKS_BACK_AFTER * (ended - started))
            self._look_back_at = ended + pause

    def rise(self, last: UUID) -> None:
        # The first 48 bits of an id are its milliseconds.
        place = UUID(int=max((last.int >> 80) - _LATE_MS, 0) << 80)
        self._place = max(place, self._place)


def _reactions_to(event: PendingEvent, readers: dict[UUID, Reader]) -> list[Reaction]:
    if event.name is None:
        return []
    occurrence = Occurrence(
        event.event_id,
        event.name,
        event.created_at,
        event.correlation_id,
        event.key,
        event.traceparent,
        event.data,
        event.replay,
    )
    return [readers[each].react(occurrence) for each in event.triggers if each in readers]


async def _fail(line: Line, dispatched: Dispatched, error: JobForgeError) -> dict[str, int]:
    """What cannot even fail comes again in a while."""
    if not isinstance(error, Contended):
        try:
            return await line.run(calls.record_deliveries([_failed(dispatched, error)]))
        except (Unavailable, Denied):
            raise
        except JobForgeError as again:
            error = again
    logs.emit("event.stuck", "warning", place=dispatched.id, error=error.message)
    return {}


def _failed(dispatched: Dispatched, error: JobForgeError) -> Dispatched:
    reactions = [
        Reaction(each.trigger_id, DeliveryOutcome.FAILED, error.message)
        for each in dispatched.reactions
    ]
    return dispatched._replace(reactions=reactions)
