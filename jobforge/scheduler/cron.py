"""When a schedule fires: five fields or a name such as @daily, in the time of a place.

Owns the text of a schedule, and what it means where clocks are changed. cronsim walks the calendar.

A schedule whose hour is every hour goes by time as it passes: `*/30 * * * *` fires every real half
hour, whatever the clocks show. All others go by the clock on the wall. A time that the clocks skip
fires at the next minute that they show, and a time that they show twice fires once, the first time.
Fields of days combine as in Debian's cron: when neither begins with a star, one of them suffices.
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
TENANT_ZONE = "tenant"  # for a time zone: that of the tenant whose schedule it is

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
# Days of the longest month that a day of the month may be looked for in.
_LAST_DAYS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class _Field:
    """One of the five: what it is called, its numbers, and the words that stand for some."""

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
    """What a change of the clocks did to a time."""

    SKIPPED = "skipped"  # the clocks left it out: it fires at the next minute that they show
    REPEATED = "repeated"  # the clocks show it twice


@dataclass(frozen=True, slots=True)
class FireTime:
    """One time at which a schedule fires."""

    at: datetime
    local: datetime
    change: ClockChange | None


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule in a zone. Times in and out are aware; those out are in UTC."""

    text: str
    zone: ZoneInfo
    _expanded: str
    _expression: str
    _is_elapsed: bool

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time it fires after that moment; None when it never does again."""
        return next(self.after(moment), None)

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Every time it fires after that moment, in order, each once."""
        return (run.at for run in self._iter_fire_times(moment))

    def between(self, first: datetime, end: datetime) -> Iterator[datetime]:
        """The times from `first` on that lie before `end`."""
        for at in self.after(first - timedelta(microseconds=1)):
            if at >= end:
                return
            yield at

    def last_before(self, end: datetime, *, first: datetime, most: int) -> list[datetime]:
        """The last `most` of the times from `first` on that lie before `end`, in order.

        The past is looked through in windows that grow backwards, so a schedule of every minute
        that nobody looked at for a year costs no more than any other.
        """
        window = timedelta(minutes=2 * most)
        while True:
            start = max(first, end - window)
            found = list(self.between(start, end))
            if len(found) >= most or start == first:
                return found[-most:]
            window *= 8

    def preview(self, moment: datetime, most: int) -> list[FireTime]:
        """The next times, with what changes of the clocks do to them."""
        return list(islice(self._iter_fire_times(moment), most))

    def describe(self) -> str:
        """As people say it: At 09:00 on Monday through Friday."""
        return str(CronSim(self._expanded, datetime(2024, 1, 1)).explain())  # noqa: DTZ001 - no time is meant

    def _iter_fire_times(self, moment: datetime) -> Iterator[FireTime]:
        return (
            self._iter_by_elapsed_time(moment)
            if self._is_elapsed
            else self._iter_by_wall_clock(moment)
        )

    def _iter_by_elapsed_time(self, moment: datetime) -> Iterator[FireTime]:
        again: deque[FireTime] = deque()
        for wall in CronSim(self._expression, self._wall_time_before_repeats(moment)):
            shown = self._find_occurrences(wall)
            # What the clocks show again comes after all that they show the first time.
            while shown and again and again[0].at < shown[0].at:
                yield again.popleft()
            again.extend(run for run in shown[1:] if run.at > moment)
            yield from (run for run in shown[:1] if run.at > moment)
        yield from again

    def _wall_time_before_repeats(self, moment: datetime) -> datetime:
        """The time on the wall, or, while the clocks show one again, one from before that."""
        local = moment.astimezone(self.zone)
        return local.replace(tzinfo=None) - _measure_repeat(local)

    def _find_occurrences(self, wall: datetime) -> list[FireTime]:
        """When the clocks show that time: never, once or twice."""
        local = wall.replace(tzinfo=self.zone, fold=0)
        if not _is_existing_time(local):
            return []
        change = _find_repeat(local)
        runs = [FireTime(local.astimezone(UTC), local, change)]
        if change is not None:
            later = local.replace(fold=1)
            runs.append(FireTime(later.astimezone(UTC), later, change))
        return runs

    def _iter_by_wall_clock(self, moment: datetime) -> Iterator[FireTime]:
        last = moment
        # Without a zone the calendar has no gaps; each of its times is then found on the clock.
        # Times never go backwards on the way, except while the clocks show an hour again.
        for wall in CronSim(self._expression, moment.astimezone(self.zone).replace(tzinfo=None)):
            run = self._resolve_wall_time(wall)
            if run.at > last:
                last = run.at
                yield run

    def _resolve_wall_time(self, wall: datetime) -> FireTime:
        shown = self._find_occurrences(wall)
        if shown:
            return shown[0]
        at = self._first_after_gap(wall.replace(tzinfo=self.zone, fold=0).astimezone(UTC))
        return FireTime(at, at.astimezone(self.zone), ClockChange.SKIPPED)

    def _first_after_gap(self, at: datetime) -> datetime:
        """The first minute on the other side of a gap.

        A time that was skipped is read by the clock from before the change, so it lies after it by
        no more than the length of the gap.
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
    """Invalid says what is wrong, and in `detail["position"]` where, counted from 0."""
    place = read_zone(zone)
    spelled = _expand_nickname(text)
    fields = _split(spelled, text)
    values = [_read_field(field, *part, text) for field, part in zip(_FIELDS, fields, strict=True)]
    _check_days(fields, values[2], values[3])
    expression = " ".join(
        _to_cronsim_field(field, part, found)
        for field, (part, _), found in zip(_FIELDS, fields, values, strict=True)
    )
    return Cron(
        " ".join(text.split()),
        place,
        _expanded=" ".join(part for part, _ in fields),
        _expression=expression,
        _is_elapsed=len(values[1]) == 24,
    )


def read_zone(name: str) -> ZoneInfo:
    """The zone of that name, as the IANA database has it."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise Invalid(
            f"there is no time zone {name[:64]!r}; they have names like Europe/Berlin",
            field="timezone",
        ) from None


def _is_existing_time(local: datetime) -> bool:
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None) == local.replace(
        tzinfo=None
    )


def _find_repeat(local: datetime) -> ClockChange | None:
    return ClockChange.REPEATED if _measure_repeat(local) else None


def _measure_repeat(local: datetime) -> timedelta:
    """For how long the clocks show times again around that one; of one that is shown at all."""
    first, later = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    return (first or timedelta()) - (later or timedelta())


def _expand_nickname(text: str) -> str:
    if len(text) > MAX_LENGTH:
        raise _invalid(f"a schedule has at most {MAX_LENGTH} characters", MAX_LENGTH)
    if not text.lstrip().startswith("@"):
        return text
    name = text.strip().lower()
    if name not in NICKNAMES:
        raise _invalid(
            f"{text.strip()} is not the name of a schedule; there are {', '.join(NICKNAMES)}",
            text.index("@"),
        )
    return NICKNAMES[name]


def _split(spelled: str, text: str) -> list[tuple[str, int]]:
    fields = [(found[0].upper(), found.start()) for found in re.finditer(r"\S+", spelled)]
    names = ", ".join(field.name for field in _FIELDS)
    if len(fields) < len(_FIELDS):
        raise _invalid(f"a schedule has five fields: {names}", len(text))
    if len(fields) > len(_FIELDS):
        raise _invalid(
            f"a schedule has five fields: {names}; there are no seconds", fields[len(_FIELDS)][1]
        )
    return fields


def _read_field(field: _Field, given: str, position: int, text: str) -> set[int]:
    values: set[int] = set()
    for term in given.split(","):
        values |= _read_term(field, term, position)
        position += len(term) + 1
    if not values:
        raise _invalid(f"{field.name} is empty in {text!r}", position)
    return values


def _read_term(field: _Field, term: str, position: int) -> set[int]:
    found = _TERM.fullmatch(term)
    if found is None:
        hint = "; L, W and # are not known here" if re.search(r"[LW#?]", term) else ""
        raise _invalid(f"{field.name}: {term or 'nothing'} is not a value{hint}", position)
    every, first, last, step = found.groups()
    low, high = field.least, field.most
    if every != "*":
        low = _number(field, first, position)
        high = low if last is None else _number(field, last, position + len(first) + 1)
    if high < low:
        raise _invalid(f"{field.name}: {every} runs backwards", position)
    if step is None:
        return set(range(low, high + 1))
    if every != "*" and last is None:
        raise _invalid(f"{field.name}: a step goes with * or with a range", position)
    where = position + len(every) + 1
    if not 1 <= int(step) <= field.most:
        raise _invalid(f"{field.name}: a step lies between 1 and {field.most}", where)
    return set(range(low, high + 1, int(step)))


def _number(field: _Field, text: str, position: int) -> int:
    if text in field.words:
        return field.words.index(text) + field.first_word
    if not text.isdecimal():
        hint = "; L, W and # are not known here" if re.search(r"[LW#]", text) else ""
        raise _invalid(f"{field.name}: {text} is not a value{hint}", position)
    if not field.least <= int(text) <= field.most:
        raise _invalid(
            f"{field.name}: {text} does not lie between {field.least} and {field.most}", position
        )
    return int(text)


def _check_days(fields: list[tuple[str, int]], days: set[int], months: set[int]) -> None:
    """Refuses what would never fire. Where either field suffices, a day of the week comes."""
    (day, position), (weekday, _) = fields[2], fields[4]
    one_suffices = not day.startswith("*") and not weekday.startswith("*")
    if not one_suffices and min(days) > max(_LAST_DAYS[month] for month in months):
        raise _invalid("it would never fire: none of the months has such a day", position)


def _to_cronsim_field(field: _Field, given: str, values: set[int]) -> str:
    """The field for cronsim, which reads a star at its beginning as a word about the others."""
    if given.startswith("*") or len(values) == field.most - field.least + 1:
        return given if given.startswith("*") else "*"
    return ",".join(map(str, sorted(values)))


def _invalid(message: str, position: int) -> Invalid:
    return Invalid(message, field="cron", detail={"position": position})
