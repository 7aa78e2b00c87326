"""Evaluates a trigger for an event: whether it matches, and the job to enqueue. Pure, no I/O.

The scheduler enqueues the job; a dry run shows the same reaction. A fault of a trigger or its
payload becomes the reason of a failed reaction, never an exception, so that other triggers are not
affected.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC

import orjson

from jobforge.errors import JobForgeError, Json
from jobforge.payloads import schema_validation
from jobforge.payloads.schema_validation import Validator, compile_validator
from jobforge.scheduler import event_filter, template
from jobforge.scheduler.event_filter import ROOTS, Condition
from jobforge.scheduler.template import Template
from jobforge.types.events import DeliveryOutcome, Event, EventTrigger, PendingEvent, Reaction
from jobforge.types.jsonb import replace_unencodable
from jobforge.types.triggers import Trigger

TriggeringEvent = PendingEvent | Event  # from the outbox, or a stored event in a dry run

_MOST_CHARACTERS_OF_REASON = 1000


@dataclass(frozen=True, slots=True)
class ParsedTrigger:
    """A trigger with its filter and templates parsed; `fault` is the parse error, if any."""

    trigger: EventTrigger
    validator: Validator | None = None
    conditions: tuple[Condition, ...] = ()
    payload: Template | None = None
    dedupe_key: Template | None = None
    fault: str | None = None

    def react(self, event: TriggeringEvent) -> Reaction:
        if self.fault is not None:
            return self._fail(self.fault)
        try:
            return self._react(event)
        except JobForgeError as error:
            return self._fail(error.message)
        except Exception as error:  # noqa: BLE001 - one trigger must not stop the others
            return self._fail(repr(error))

    def _react(self, event: TriggeringEvent) -> Reaction:
        values = build_template_values(event)
        if not event_filter.matches(self.conditions, values):
            return Reaction(self.trigger.id, DeliveryOutcome.FILTERED)
        payload = self.payload.render(values) if self.payload else {}
        schema_validation.check_payload(self.validator, payload)
        job = {
            "definition": self.trigger.definition,
            "version": self.trigger.version,
            "queue": self.trigger.queue,
            "priority": self.trigger.priority,
            "payload": payload,
            "correlation_id": event.correlation_id,
            "traceparent": event.traceparent,
            "created_by": f"trigger:{self.trigger.id}",
            **self._key(event, payload, values),
        }
        given = {name: value for name, value in job.items() if value is not None}
        return Reaction(self.trigger.id, DeliveryOutcome.ENQUEUED, job=given)

    def _key(
        self, event: TriggeringEvent, payload: Json, values: Mapping[str, Json]
    ) -> dict[str, Json]:
        """Return the job's idempotency key: two events with the same key create one job.

        An event's own key takes precedence. Without one, events with the same payload (or the same
        rendered `dedupe_key`) create one job within the trigger's window.
        """
        if event.key is not None:
            digest = _digest([event.name, event.key])
            return {"key": f"trigger:{self.trigger.id}:key:{digest}{_suffix(event)}"}
        if not self.trigger.dedupe_window_s:
            return {}
        digest = _digest(self.dedupe_key.render(values) if self.dedupe_key else payload)
        return {
            "key": f"trigger:{self.trigger.id}:{digest}{_suffix(event)}",
            "key_mode": "window",
            "key_window_s": self.trigger.dedupe_window_s,
        }

    def _fail(self, reason: str) -> Reaction:
        text = replace_unencodable(reason)[:_MOST_CHARACTERS_OF_REASON]
        return Reaction(self.trigger.id, DeliveryOutcome.FAILED, text)


def parse_trigger(trigger: EventTrigger, validator: Validator | None = None) -> ParsedTrigger:
    """Parse a trigger; never raises. An invalid trigger fails for every event, with the reason."""
    try:
        return ParsedTrigger(
            trigger,
            validator,
            event_filter.parse(trigger.filter),
            template.parse(trigger.payload, roots=ROOTS),
            _parse_dedupe_key(trigger.dedupe_key),
        )
    except JobForgeError as error:
        return ParsedTrigger(trigger, fault=error.message)
    except Exception as error:  # noqa: BLE001 - one trigger must not stop the others
        return ParsedTrigger(trigger, fault=repr(error))


def dry_run(trigger: Trigger, event: Event, parameters: Json) -> Reaction:
    """Return the trigger's reaction if this event occurred now and the trigger were enabled."""
    if trigger.event is None or not event_filter.matches_pattern(trigger.event, event.name):
        reason = f"event {event.name} does not match {trigger.event or 'a schedule'}"
        return Reaction(trigger.id, DeliveryOutcome.FILTERED, reason)
    as_event_trigger = EventTrigger._make(getattr(trigger, name) for name in EventTrigger._fields)
    parsed = parse_trigger(as_event_trigger, compile_validator(trigger.definition, parameters))
    return parsed.react(event)


def build_template_values(event: TriggeringEvent) -> Mapping[str, Json]:
    """Return the values that templates and filters can refer to."""
    meta = {
        "id": str(event.event_id if isinstance(event, PendingEvent) else event.id),
        "name": event.name,
        "created_at": event.created_at.astimezone(UTC).isoformat(),
        "correlation_id": event.correlation_id,
        "key": event.key,
    }
    return {"event": event.data, "meta": meta}


def _digest(value: Json) -> str:
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:40]


def _suffix(event: TriggeringEvent) -> str:
    # A replay must create the jobs again, so its keys must differ.
    replay = event.replay if isinstance(event, PendingEvent) else 0
    return f":{replay}" if replay else ""


def _parse_dedupe_key(text: str | None) -> Template | None:
    return None if text is None else template.parse(text, field="dedupe_key", roots=ROOTS)
