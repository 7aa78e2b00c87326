"""Cron schedules: five fields or a nickname such as @daily, in a time zone.

Owns the syntax of a schedule and its behavior at clock changes. cronsim iterates over the calendar.

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

from cronsim import CronSim

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

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MINUTE = timedelta(minutes=1)
# The longest possible length of each month; index 0 is unused.
_LAST_DAYS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class _Field:
    """One of the five fields: its label, its range, and its names for values, such as JAN."""

    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()
    first_word: int = 0


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS, 1),
    _Field("day of the week", 0, 7, _DAYS),
)
_TERM = re.compile(r"(\*|([0-9A-Z]+)(?:-([0-9A-Z]+))?)(?:/([0-9]+))?")


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
    _expanded: str
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
        return str(CronSim(self._expanded, datetime(2024, 1, 1)).explain())  # noqa: DTZ001 - explain() ignores the start time

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
        last = moment
        # cronsim runs on naive times, which have no gaps; each result is then resolved in the zone.
        # The resolved times are ascending, except while a clock change repeats an hour.
        for wall in CronSim(self._expression, moment.astimezone(self.zone).replace(tzinfo=None)):
            fire_time = self._resolve_wall_time(wall)
            if fire_time.at > last:
                last = fire_time.at
                yield fire_time

    def _resolve_wall_time(self, wall: datetime) -> FireTime:
        occurrences = self._find_occurrences(wall)
        if occurrences:
            return occurrences[0]
        at = self._first_after_gap(wall.replace(tzinfo=self.zone, fold=0).astimezone(UTC))
        return FireTime(at, at.astimezone(self.zone), ClockChange.SKIPPED)

    def _first_after_gap(self, at: datetime) -> datetime:
        """Return the first minute after the gap that a clock change leaves.

        A skipped local time is interpreted with the offset from before the change. So `at` is later
        than the change by at most the length of the gap, and bisection finds the change.
        """
        offset = at.astimezone(self.zone).utcoffset()
        inside, before = at, at - timedelta(hours=25)
        while inside - before > _MINUTE:
            middle = before + (inside - before) // _MINUTE // 2 * _MINUTE
            if middle.astimezone(self.zone).utcoffset() == offset:
                inside = middle
            else:
                before = middle
        return inside


def parse(text: str, zone: str) -> Cron:
    """Parse a schedule; the Invalid error has the 0-based offset in `detail["position"]`."""
    time_zone = read_zone(zone)
    expanded = _expand_nickname(text)
    fields = _split(expanded, text)
    values = [_read_field(field, *part, text) for field, part in zip(_FIELDS, fields, strict=True)]
    _check_days(fields, values[2], values[3])
    expression = " ".join(
        _to_cronsim_field(field, part, numbers)
        for field, (part, _), numbers in zip(_FIELDS, fields, values, strict=True)
    )
    return Cron(
        " ".join(text.split()),
        time_zone,
        _expanded=" ".join(part for part, _ in fields),
        _expression=expression,
        _is_elapsed=len(values[1]) == 24,
    )


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
            f"Unknown schedule '{text.strip()}'; use one of {', '.join(NICKNAMES)}",
            text.index("@"),
        )
    return NICKNAMES[name]


def _split(expanded: str, text: str) -> list[tuple[str, int]]:
    fields = [(match[0].upper(), match.start()) for match in re.finditer(r"\S+", expanded)]
    names = ", ".join(field.name for field in _FIELDS)
    if len(fields) < len(_FIELDS):
        raise _invalid(f"cron must have five fields: {names}", len(text))
    if len(fields) > len(_FIELDS):
        raise _invalid(
            f"cron must have five fields: {names}; seconds are not supported",
            fields[len(_FIELDS)][1],
        )
    return fields


def _read_field(field: _Field, field_text: str, position: int, text: str) -> set[int]:
    values: set[int] = set()
    for term in field_text.split(","):
        values |= _read_term(field, term, position)
        position += len(term) + 1
    if not values:
        raise _invalid(f"{field.name} is empty in {text!r}", position)
    return values


def _read_term(field: _Field, term: str, position: int) -> set[int]:
    match = _TERM.fullmatch(term)
    if match is None:
        hint = "; L, W and # are not supported" if re.search(r"[LW#?]", term) else ""
        raise _invalid(f"{field.name}: '{term}' is not a valid value{hint}", position)
    range_text, first, last, step = match.groups()
    low, high = field.least, field.most
    if range_text != "*":
        low = _number(field, first, position)
        high = low if last is None else _number(field, last, position + len(first) + 1)
    if high < low:
        raise _invalid(f"{field.name}: the start of range {range_text} is after its end", position)
    if step is None:
        return set(range(low, high + 1))
    if range_text != "*" and last is None:
        raise _invalid(f"{field.name}: a step requires * or a range", position)
    step_position = position + len(range_text) + 1
    if not 1 <= int(step) <= field.most:
        raise _invalid(f"{field.name}: the step must be between 1 and {field.most}", step_position)
    return set(range(low, high + 1, int(step)))


def _number(field: _Field, text: str, position: int) -> int:
    if text in field.words:
        return field.words.index(text) + field.first_word
    if not text.isdecimal():
        hint = "; L, W and # are not supported" if re.search(r"[LW#]", text) else ""
        raise _invalid(f"{field.name}: '{text}' is not a valid value{hint}", position)
    if not field.least <= int(text) <= field.most:
        raise _invalid(
            f"{field.name}: {text} must be between {field.least} and {field.most}", position
        )
    return int(text)


def _check_days(fields: list[tuple[str, int]], days: set[int], months: set[int]) -> None:
    """Raise Invalid for a schedule that never fires.

    When matching one day field suffices, the day of the week makes it fire.
    """
    (day, position), (weekday, _) = fields[2], fields[4]
    one_suffices = not day.startswith("*") and not weekday.startswith("*")
    if not one_suffices and min(days) > max(_LAST_DAYS[month] for month in months):
        raise _invalid("The schedule never fires: none of the months has such a day", position)


def _to_cronsim_field(field: _Field, text: str, values: set[int]) -> str:
    """Return the field for cronsim, which treats a leading `*` in a day field specially."""
    if text.startswith("*") or len(values) == field.most - field.least + 1:
        return text if text.startswith("*") else "*"
    return ",".join(map(str, sorted(values)))


def _invalid(message: str, position: int) -> Invalid:
    return Invalid(message, field="cron", detail={"position": position})
