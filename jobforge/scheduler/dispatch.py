"""Dispatches events: reads the outbox, evaluates triggers, and enqueues their jobs.

Each batch takes two calls. Any number of schedulers may run: the transaction that creates an
event's jobs also removes the event from the outbox, so only one scheduler can dispatch it.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from jobforge import calls
from jobforge.db.outage import MonitoredLink
from jobforge.errors import Contended, Denied, JobForgeError, Json, Unavailable
from jobforge.observability import logs
from jobforge.observability.metrics import Meters
from jobforge.payloads.schema_validation import Validator, compile_validator
from jobforge.scheduler import reaction
from jobforge.scheduler.reaction import ParsedTrigger
from jobforge.types.events import (
    DeliveryOutcome,
    Dispatched,
    EventTrigger,
    PendingEvent,
    PendingEvents,
    Reaction,
)

_FIRST = UUID(int=0)
_MOST_EVENTS = 500  # per batch
_YIELD_EVERY = 100  # events between yields to other tasks of the event loop
_MOST_REMEMBERED = 1000
_COMMIT_ALLOWANCE_MS = 2000
_FULL_SCAN_EVERY_S = 1.0
_FULL_SCAN_PAUSE_FACTOR = 20  # times the duration of the last full scan


class Dispatcher:
    """Dispatches batches of events for one scheduler; keeps a cursor and compiled validators."""

    def __init__(self, meters: Meters | None = None) -> None:
        self._meters = meters or Meters()
        self._cursor = _OutboxCursor()
        self._validators: dict[tuple[str, int | None], tuple[Json, Validator | None]] = {}

    async def dispatch(self, link: MonitoredLink) -> bool:
        """Dispatch one batch of events; return True when there may be more."""
        started = time.monotonic()
        after = self._cursor.start_after(started)
        pending = await link.run(calls.pending_events(limit=_MOST_EVENTS, after=after))
        self._cursor.record_scan(after, started, time.monotonic())
        if not pending.events:
            return False
        counts = await self._record(link, await self._collect_reactions(pending))
        self._meters.events += len(pending.events)
        if after is not None:
            self._cursor.advance(pending.events[-1].id)
        if counts.get(DeliveryOutcome.FAILED):
            logs.emit("event.failed", "warning", deliveries=counts[DeliveryOutcome.FAILED])
        return True

    def iter_reactions(self, pending: PendingEvents) -> Iterator[Dispatched]:
        """Yield what the triggers do with each event, without I/O."""
        triggers = {
            trigger.id: reaction.parse_trigger(trigger, self._validator(trigger, pending))
            for trigger in pending.triggers.values()
        }
        for event in pending.events:
            yield Dispatched(event.id, _react_to_event(event, triggers))

    async def _collect_reactions(self, pending: PendingEvents) -> list[Dispatched]:
        dispatched = []
        for reactions in self.iter_reactions(pending):
            dispatched.append(reactions)
            if len(dispatched) % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return dispatched

    def _validator(self, trigger: EventTrigger, pending: PendingEvents) -> Validator | None:
        target = trigger.definition, trigger.version
        schema = pending.parameters.get(target)
        cached = self._validators.get(target)
        if cached is None or cached[0] != schema:
            if len(self._validators) >= _MOST_REMEMBERED:
                self._validators.clear()
            cached = self._validators[target] = (
                schema,
                compile_validator(trigger.definition, schema),
            )
        return cached[1]

    async def _record(
        self, link: MonitoredLink, dispatched: Sequence[Dispatched]
    ) -> dict[str, int]:
        try:
            return await link.run(calls.record_deliveries(dispatched))
        except (Unavailable, Denied):
            raise  # the events stay in the outbox
        except JobForgeError as error:
            if len(dispatched) == 1:
                return await _record_failure(link, dispatched[0], error)
        # The engine refuses one of the events, or another transaction locks a job that waits for
        # one. Record them singly, so that the other events are not delayed.
        counts: dict[str, int] = {}
        for event in dispatched:
            for outcome, number in (await self._record(link, [event])).items():
                counts[outcome] = counts.get(outcome, 0) + number
        return counts


@dataclass(slots=True)
class _OutboxCursor:
    """Where the next scan of the outbox starts.

    While a long open transaction holds back vacuum, index entries of dispatched events remain, and
    a scan from the left end of the index passes all of them. So a scan starts at the last
    dispatched event, less an allowance for transactions that have yet to commit.

    A periodic full scan gives each tenant a share. It finds events that committed later than the
    allowance, and events of tenants behind another tenant's backlog. The interval of full scans
    grows with their duration.
    """

    _position: UUID = _FIRST
    _full_scan_at: float = 0.0

    def start_after(self, now: float) -> UUID | None:
        """Return the ID to start after; None for a full scan."""
        return self._position if now < self._full_scan_at else None

    def record_scan(self, after: UUID | None, started: float, ended: float) -> None:
        if after is None:
            pause = max(_FULL_SCAN_EVERY_S, _FULL_SCAN_PAUSE_FACTOR * (ended - started))
            self._full_scan_at = ended + pause

    def advance(self, last: UUID) -> None:
        # The first 48 bits of a UUIDv7 are its time in milliseconds.
        position = UUID(int=max((last.int >> 80) - _COMMIT_ALLOWANCE_MS, 0) << 80)
        self._position = max(position, self._position)


def _react_to_event(event: PendingEvent, triggers: dict[UUID, ParsedTrigger]) -> list[Reaction]:
    if event.name is None:
        return []
    return [
        triggers[trigger_id].react(event) for trigger_id in event.triggers if trigger_id in triggers
    ]


async def _record_failure(
    link: MonitoredLink, dispatched: Dispatched, error: JobForgeError
) -> dict[str, int]:
    """Record the event's deliveries as failed.

    When that fails too, log it and leave the event in the outbox for a later batch.
    """
    if not isinstance(error, Contended):
        try:
            return await link.run(calls.record_deliveries([_to_failed(dispatched, error)]))
        except (Unavailable, Denied):
            raise
        except JobForgeError as again:
            error = again
    logs.emit("event.stuck", "warning", place=dispatched.id, error=error.message)
    return {}


def _to_failed(dispatched: Dispatched, error: JobForgeError) -> Dispatched:
    reactions = [
        Reaction(each.trigger_id, DeliveryOutcome.FAILED, error.message)
        for each in dispatched.reactions
    ]
    return dispatched._replace(reactions=reactions)
