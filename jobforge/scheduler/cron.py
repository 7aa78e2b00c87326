"""Cron schedules: five fields or a nickname such as @daily, in a time zone.

cronsim parses the fields and iterates over the calendar. This module adds the nicknames, the
position of a mistake, and schedules that follow elapsed time.

A schedule that fires in every hour follows elapsed time: `*/30 * * * *` fires every real half hour,
whatever the local clock shows. All other schedules follow the local clock: a time that a clock
change skips fires at the next local minute that exists, and a time that occurs twice fires once,
the first time. The two day fields combine as in Debian's cron: when neither starts with `*`,
matching one of them suffices.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from jobforge.errors import Invalid

MAX_LENGTH = 100
TENANT_ZONE = "tenant"  # stands for the time zone of the schedule's tenant

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

# Each field's name, values and largest step.
_FIELDS = (
    ("minute", "0 to 59", 59),
    ("hour", "0 to 23", 23),
    ("day of the month", "1 to 31, L or LW", 31),
    ("month", "1 to 12, or JAN to DEC", 12),
    ("day of the week", "0 to 7, or SUN to SAT", 7),
)
_START = datetime(2000, 1, 1)  # noqa: DTZ001 - a local time


class ClockChange(StrEnum):
    """How a clock change affects a time."""

    SKIPPED = "skipped"  # the local time does not exist: fires at the next minute that does
    REPEATED = "repeated"  # the local time occurs twice


@dataclass(frozen=True, slots=True)
class FireTime:
    """A time at which a schedule fires."""

    at: datetime
    local: datetime
    change: ClockChange | None


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule in a time zone. Takes aware datetimes; returns datetimes in UTC."""

    text: str
    zone: ZoneInfo
    _expression: str
    _is_elapsed: bool

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first fire time after this moment; None when there is none."""
        return next(self.after(moment), None)

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Iterate over the fire times after this moment, in order, without duplicates."""
        return (fire_time.at for fire_time in self._iter_fire_times(moment))

    def between(self, first: datetime, end: datetime) -> Iterator[datetime]:
        """Iterate over the fire times from `first` (included) to `end` (excluded)."""
        for at in self.after(first - timedelta(microseconds=1)):
            if at >= end:
                return
            yield at

    def last_before(self, end: datetime, *, first: datetime, most: int) -> list[datetime]:
        """Return the last `most` fire times from `first` (included) to `end` (excluded), in order.

        Searches backwards in growing windows. So the cost does not depend on how long ago `first`
        is, even for a schedule that fires every minute.
        """
        window = timedelta(minutes=2 * most)
        while True:
            start = max(first, end - window)
            times = list(self.between(start, end))
            if len(times) >= most or start == first:
                return times[-most:]
            window *= 8

    def preview(self, moment: datetime, most: int) -> list[FireTime]:
        """Return the next fire times, with the effects of clock changes."""
        return list(islice(self._iter_fire_times(moment), most))

    def describe(self) -> str:
        """Return a description in English, such as: At 09:00 on Monday through Friday."""
        return CronSim(self._expression, _START).explain()

    def _iter_fire_times(self, moment: datetime) -> Iterator[FireTime]:
        return (
            self._iter_by_elapsed_time(moment)
            if self._is_elapsed
            else self._iter_by_wall_clock(moment)
        )

    def _iter_by_elapsed_time(self, moment: datetime) -> Iterator[FireTime]:
        repeats: deque[FireTime] = deque()
        for wall in CronSim(self._expression, self._wall_time_before_repeats(moment)):
            occurrences = self._find_occurrences(wall)
            # Second occurrences come after all first occurrences that precede them in real time.
            while occurrences and repeats and repeats[0].at < occurrences[0].at:
                yield repeats.popleft()
            repeats.extend(fire_time for fire_time in occurrences[1:] if fire_time.at > moment)
            yield from (fire_time for fire_time in occurrences[:1] if fire_time.at > moment)
        yield from repeats

    def _wall_time_before_repeats(self, moment: datetime) -> datetime:
        """Return the local time, moved back by the length of the repetition if it occurs twice."""
        local = moment.astimezone(self.zone)
        return local.replace(tzinfo=None) - _measure_repeat(local)

    def _find_occurrences(self, wall: datetime) -> list[FireTime]:
        """Return the real times at which the local clock shows `wall`: none, one or two."""
        local = wall.replace(tzinfo=self.zone, fold=0)
        if not _is_existing_time(local):
            return []
        change = _find_repeat(local)
        occurrences = [FireTime(local.astimezone(UTC), local, change)]
        if change is not None:
            later = local.replace(fold=1)
            occurrences.append(FireTime(later.astimezone(UTC), later, change))
        return occurrences

    def _iter_by_wall_clock(self, moment: datetime) -> Iterator[FireTime]:
        # cronsim moves skipped times only if neither minute nor hour starts with `*`.
        minute, hour, *days = self._expression.split()
        fields = [minute.replace("*", "0-59"), hour.replace("*", "0-23"), *days]
        schedule = CronSim(" ".join(fields), moment.astimezone(self.zone))
        for local in schedule:
            at = local.astimezone(UTC)
            if at <= moment:  # the first occurrence of a time that the clock now shows again
                continue
            is_moved = local.hour not in schedule.hours or local.minute not in schedule.minutes
            yield FireTime(at, local, ClockChange.SKIPPED if is_moved else _find_repeat(local))


def parse(text: str, zone: str) -> Cron:
    """Parse a schedule; the Invalid error has the 0-based offset in `detail["position"]`."""
    time_zone = read_zone(zone)
    expression = _expand_nickname(text)
    fields = _split(expression)
    for index, field in enumerate(fields):
        _check_terms(index, field[0], field.start())
    try:
        schedule = CronSim(expression, _START)
        next(schedule)
    except (CronSimError, StopIteration):
        raise _invalid(
            "The schedule never fires: none of the months has such a day", fields[2].start()
        ) from None
    return Cron(" ".join(text.split()), time_zone, expression, len(schedule.hours) == 24)


def read_zone(name: str) -> ZoneInfo:
    """Return the IANA time zone with this name; raise Invalid."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise Invalid(
            f"Unknown time zone {name[:64]!r}; use a name such as Europe/Berlin",
            field="timezone",
        ) from None


def _is_existing_time(local: datetime) -> bool:
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None) == local.replace(
        tzinfo=None
    )


def _find_repeat(local: datetime) -> ClockChange | None:
    return ClockChange.REPEATED if _measure_repeat(local) else None


def _measure_repeat(local: datetime) -> timedelta:
    """Return by how much a clock change repeats this local time; zero if it occurs once."""
    first, later = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    return (first or timedelta()) - (later or timedelta())


def _expand_nickname(text: str) -> str:
    if len(text) > MAX_LENGTH:
        raise _invalid(f"cron must have at most {MAX_LENGTH} characters", MAX_LENGTH)
    if not text.lstrip().startswith("@"):
        return text
    name = text.strip().lower()
    if name not in NICKNAMES:
        raise _invalid(
            f"Unknown schedule '{text.strip()}'; use one of {', '.join(NICKNAMES)}"
            ", or an interval such as @every 30s",
            text.index("@"),
        )
    return NICKNAMES[name]


def _split(expression: str) -> list[re.Match[str]]:
    fields = list(re.finditer(r"\S+", expression))
    if len(fields) != len(_FIELDS):
        surplus = fields[len(_FIELDS) :]
        raise _invalid(
            f"cron must have five fields: {', '.join(name for name, *_ in _FIELDS)}",
            surplus[0].start() if surplus else len(expression),
        )
    return fields


def _check_terms(index: int, field: str, position: int) -> None:
    """Parse each term alone, because cronsim's error does not say which one is wrong."""
    name, values, most = _FIELDS[index]
    for term in field.split(","):
        alone = ["*"] * len(_FIELDS)
        alone[index] = term
        try:
            CronSim(" ".join(alone), _START)
        except CronSimError:
            raise _invalid(f"'{term}' is not a valid {name} ({values})", position) from None
        step = term.partition("/")[2]
        if step and int(step) > most:  # cronsim would read */90 as 0
            raise _invalid(f"{name}: the step must be between 1 and {most}", position)
        position += len(term) + 1


def _invalid(message: str, position: int) -> Invalid:
    return Invalid(message, field="cron", detail={"position": position})
