"""Triggers that code declares for its definitions: `@jf.job(cron=…)`, `every=…`, `on_event=…`."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypedDict
from uuid import UUID

from jobforge.errors import Invalid, Json
from jobforge.payloads.signature import Parameters
from jobforge.sdk.duration import Duration, to_seconds
from jobforge.types import jsonb

CatchUpOption = Literal["none", "last", "all"]
OverlapOption = Literal["allow", "skip", "queue", "cancel_running"]

_SCHEDULE_ONLY = ("tz", "catch_up", "catch_up_limit", "overlap", "jitter")
_EVENT_ONLY = ("where", "dedupe", "dedupe_key")


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule of one tenant, of every tenant (`"*"`), or of the app's own tenant (None).

    `cron` may be an interval, such as `@every 30s`.
    """

    type: ClassVar = "schedule"
    cron: str
    timezone: str
    catch_up: CatchUpOption = "last"
    catch_up_limit: int = 10
    overlap: OverlapOption = "allow"
    jitter_s: int = 0
    tenant: str | None = None
    payload: dict[str, Json] | None = None

    def to_json(self, definition: str, _: Parameters) -> dict[str, Json]:
        """Return the settings as create_trigger takes them."""
        return {
            "label": definition,
            "definition": definition,
            "cron": self.cron,
            "timezone": self.timezone,
            "catch_up": self.catch_up,
            "catch_up_limit": self.catch_up_limit,
            "overlap": self.overlap,
            "jitter_s": self.jitter_s,
            "payload": self.payload or {},
        }


@dataclass(frozen=True, slots=True)
class DeclaredEventTrigger:
    """An event trigger; `tenant` is as for a schedule. Without a `payload`, see to_json."""

    type: ClassVar = "event"
    event: str
    where: list[dict[str, Json]]
    dedupe_window_s: int = 0
    dedupe_key: str | None = None
    tenant: str | None = None
    payload: dict[str, Json] | None = None

    def to_json(self, definition: str, parameters: Parameters) -> dict[str, Json]:
        """Return the settings as create_trigger takes them.

        Without a payload, each parameter gets the member of the event's data with its name.
        """
        payload = self.payload
        if payload is None:
            payload = _map_data_to_parameters(definition, parameters.schema())
        return {
            "label": definition,
            "definition": definition,
            "event": self.event,
            "filter": self.where,
            "dedupe_window_s": self.dedupe_window_s,
            "dedupe_key": self.dedupe_key,
            "payload": payload,
        }


DeclaredTriggerSettings = Schedule | DeclaredEventTrigger


class TriggerSettings(TypedDict, total=False):
    """The settings of triggers in `@jf.job(…)`; docs/schedules.md and docs/events.md describe them.

    `tenant` and `payload` belong to schedules and event triggers, `where`, `dedupe` and
    `dedupe_key` to event triggers, the others to schedules.
    """

    cron: str | None
    every: Duration | None
    tz: str | None
    catch_up: CatchUpOption | None
    catch_up_limit: int | None
    overlap: OverlapOption | None
    jitter: Duration | None
    on_event: str | None
    where: list[dict[str, Json]] | None
    dedupe: Duration | None
    dedupe_key: str | None
    tenant: str | UUID | None
    payload: dict[str, Json] | None


def read_trigger(settings: TriggerSettings) -> DeclaredTriggerSettings | None:
    """Return the schedule or event trigger, or None without `cron`, `every` and `on_event`.

    Raises Invalid for a schedule that never fires, an invalid filter or template, and settings that
    do not apply to the trigger.
    """
    given = {name for name, value in settings.items() if value is not None}
    kinds = [name for name in ("cron", "every", "on_event") if name in given]
    if len(kinds) > 1:
        raise Invalid(
            f"{kinds[0]} and {kinds[1]} cannot both be set; declare the second trigger on a"
            " separate job",
            field=kinds[1],
        )
    if kinds in ([], ["on_event"]):
        _refuse_given(given, _SCHEDULE_ONLY, "a schedule; set cron or every")
    if kinds != ["on_event"]:
        _refuse_given(given, _EVENT_ONLY, "an event trigger; set on_event")
    if not kinds:
        _refuse_given(given, ("tenant", "payload"), "a trigger; set cron, every or on_event")
        return None
    return _read_event_trigger(settings) if kinds == ["on_event"] else _read_schedule(settings)


def _refuse_given(given: set[str], names: tuple[str, ...], missing: str) -> None:
    idle = next((name for name in names if name in given), None)
    if idle is not None:
        raise Invalid(f"{idle} requires {missing}", field=idle)


def _read_schedule(settings: TriggerSettings) -> Schedule:
    from jobforge.scheduler import interval, template  # noqa: PLC0415 - most jobs have no schedule
    from jobforge.scheduler.cron import TENANT_ZONE  # noqa: PLC0415 - most jobs have no schedule

    every, zone = settings.get("every"), settings.get("tz") or TENANT_ZONE
    cron = settings.get("cron") or ""
    if every is not None:
        cron = interval.write_interval(to_seconds(every, "every"), field="every")
    payload = settings.get("payload")
    interval.parse_times(cron, "UTC" if zone == TENANT_ZONE else zone)
    template.check(payload or {}, roots=template.SCHEDULE_ROOTS)
    catch_up_limit = settings.get("catch_up_limit")
    return Schedule(
        cron=cron,
        timezone=zone,
        catch_up=settings.get("catch_up") or "last",
        catch_up_limit=10 if catch_up_limit is None else catch_up_limit,
        overlap=settings.get("overlap") or "allow",
        jitter_s=round(to_seconds(settings.get("jitter") or 0, "jitter")),
        tenant=_read_tenant(settings),
        payload=payload,
    )


def _read_event_trigger(settings: TriggerSettings) -> DeclaredEventTrigger:
    from jobforge.scheduler import event_filter, template  # noqa: PLC0415 - few jobs have a trigger

    where, dedupe_key = settings.get("where") or [], settings.get("dedupe_key")
    payload = settings.get("payload")
    event_filter.check(where, field="where")
    template.check(payload or {}, roots=event_filter.ROOTS)
    dedupe = round(to_seconds(settings.get("dedupe") or 0, "dedupe"))
    if dedupe_key is not None:
        template.check(dedupe_key, field="dedupe_key", roots=event_filter.ROOTS)
        if not dedupe:
            raise Invalid(
                "dedupe_key requires a deduplication window; set dedupe", field="dedupe_key"
            )
    return DeclaredEventTrigger(
        event=event_filter.check_pattern(settings.get("on_event"), field="on_event"),
        where=where,
        dedupe_window_s=dedupe,
        dedupe_key=dedupe_key,
        tenant=_read_tenant(settings),
        payload=payload,
    )


def _read_tenant(settings: TriggerSettings) -> str | None:
    tenant = settings.get("tenant")
    return None if tenant is None else str(tenant)


def _map_data_to_parameters(definition: str, schema: dict[str, Json]) -> dict[str, Json]:
    """Return a payload template that maps the event's data to parameters of the same names."""
    if "properties" not in schema:
        raise Invalid(
            f"The event trigger of {definition} requires a payload: its parameters have no names",
            field="payload",
        )
    required = schema.get("required", ())
    tags: dict[str, Json] = {}
    for name, parameter in schema["properties"].items():
        if name in required:
            tags[name] = f"{{{{event.{name}}}}}"
        elif "default" in parameter:
            default = jsonb.encode(parameter["default"], name)
            tags[name] = f"{{{{event.{name} | default({default})}}}}"
    return tags
