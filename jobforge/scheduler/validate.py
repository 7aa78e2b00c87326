"""Validates the settings of a trigger before they are saved: the checks that SQL cannot do.

The scheduler parses the settings again when the trigger fires; this module gives errors to the
person who edits them.
"""

from collections.abc import Mapping
from datetime import datetime

from jobforge.errors import Invalid, Json
from jobforge.scheduler import event_filter, template
from jobforge.scheduler.cron import TENANT_ZONE
from jobforge.scheduler.interval import parse_times
from jobforge.types.triggers import Trigger, TriggerType

MOST_BACKFILLED = 1000


def check(kind: TriggerType, settings: Mapping[str, Json], before: Trigger | None = None) -> None:
    """Raise Invalid with the field. `before` is the trigger that is being changed, if any."""
    if kind is TriggerType.SCHEDULE:
        _check_schedule(settings, before)
    else:
        _check_event(settings)


def list_fire_times(trigger: Trigger, start: datetime, end: datetime) -> list[datetime]:
    """Return a schedule's fire times from `start` to `end`; raise Invalid for too many."""
    if trigger.cron is None:
        raise Invalid("Only schedules can be backfilled", field="trigger_id")
    times = []
    for at in parse_times(trigger.cron, trigger.zone).between(start, end):
        times.append(at)
        if len(times) > MOST_BACKFILLED:
            raise Invalid(
                f"The schedule fires more than {MOST_BACKFILLED} times in this period; choose a"
                " shorter period",
                field="end",
            )
    return times


def _check_schedule(settings: Mapping[str, Json], before: Trigger | None) -> None:
    if "timezone" in settings or "cron" in settings:
        text = settings.get("cron", before and before.cron)
        zone = settings.get("timezone", before.timezone if before else TENANT_ZONE)
        if isinstance(text, str) and isinstance(zone, str):  # else SQL reports the missing field
            parse_times(text, "UTC" if zone == TENANT_ZONE else zone)
    if "payload" in settings:
        template.check(settings["payload"], roots=template.SCHEDULE_ROOTS)


def _check_event(settings: Mapping[str, Json]) -> None:
    if "event" in settings:
        event_filter.check_pattern(settings["event"])
    if "filter" in settings:
        event_filter.check(settings["filter"])
    if "payload" in settings:
        template.check(settings["payload"], roots=event_filter.ROOTS)
    if settings.get("dedupe_key") is not None:
        template.check(settings["dedupe_key"], field="dedupe_key", roots=event_filter.ROOTS)
