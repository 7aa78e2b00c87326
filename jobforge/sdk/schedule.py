"""Schedules that code declares for its definitions: `@jf.job(cron=…)`."""

from dataclasses import dataclass
from typing import Literal, TypedDict
from uuid import UUID

from jobforge.errors import Invalid, Json
from jobforge.sdk.duration import Duration, to_seconds

CatchUpOption = Literal["none", "last", "all"]
OverlapOption = Literal["allow", "skip", "queue", "cancel_running"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule of one tenant, of every tenant (`"*"`), or of the app's own tenant (None)."""

    cron: str
    timezone: str
    catch_up: CatchUpOption = "last"
    catch_up_limit: int = 10
    overlap: OverlapOption = "allow"
    jitter_s: int = 0
    tenant: str | None = None
    payload: dict[str, Json] | None = None

    def to_json(self, definition: str) -> dict[str, Json]:
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


class ScheduleSettings(TypedDict, total=False):
    """The settings of `@jf.job(cron=…)`; docs/schedules.md describes each."""

    cron: str | None
    tz: str | None
    catch_up: CatchUpOption | None
    catch_up_limit: int | None
    overlap: OverlapOption | None
    jitter: Duration | None
    tenant: str | UUID | None
    payload: dict[str, Json] | None


def read_schedule(settings: ScheduleSettings) -> Schedule | None:
    """Return the schedule, or None without `cron`.

    Raises Invalid for a schedule that never fires, a payload with invalid tags, or settings without
    `cron`.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    cron = settings.get("cron")
    if cron is None:
        idle = next((name for name in ScheduleSettings.__annotations__ if name in given), None)
        if idle is not None:
            raise Invalid(f"{idle} requires a schedule; set cron", field=idle)
        return None
    from jobforge.scheduler import cron as crons  # noqa: PLC0415 - most jobs have no schedule
    from jobforge.scheduler import template  # noqa: PLC0415 - most jobs have no schedule

    zone = settings.get("tz") or crons.TENANT_ZONE
    payload, tenant = settings.get("payload"), settings.get("tenant")
    crons.parse(cron, "UTC" if zone == crons.TENANT_ZONE else zone)
    template.check(payload or {}, roots=template.SCHEDULE_ROOTS)
    catch_up_limit = settings.get("catch_up_limit")
    return Schedule(
        cron=cron,
        timezone=zone,
        catch_up=settings.get("catch_up") or "last",
        catch_up_limit=10 if catch_up_limit is None else catch_up_limit,
        overlap=settings.get("overlap") or "allow",
        jitter_s=round(to_seconds(settings.get("jitter") or 0, "jitter")),
        tenant=None if tenant is None else str(tenant),
        payload=payload,
    )
