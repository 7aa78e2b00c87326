"""Schedules with a fixed interval, such as `@every 30s`, and the parser of all schedules.

The fire times are the multiples of the interval, counted from 1970-01-01 00:00 UTC. So they do not
depend on when a schedule was created, and clock changes have no effect on them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from jobforge.errors import Invalid
from jobforge.scheduler import cron
from jobforge.scheduler.cron import Cron, FireTime

PREFIX = "@every"
LONGEST = timedelta(days=365)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = (("d", "day", 86_400), ("h", "hour", 3_600), ("m", "minute", 60), ("s", "second", 1))
_LENGTH = re.compile("".join(rf"(?:([0-9]{{1,9}}){letter})?" for letter, *_ in _UNITS))


@dataclass(frozen=True, slots=True)
class Interval:
    """A schedule that fires at fixed intervals. Takes aware datetimes; returns datetimes in UTC."""

    length: timedelta
    zone: ZoneInfo

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first fire time after this moment; None when there is none."""
        return next(self.after(moment), None)

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Iterate over the fire times after this moment, in order."""
        number = (moment - _EPOCH) // self.length
        while True:
            number += 1
            try:
                at = _EPOCH + number * self.length
            except OverflowError:  # after the year 9999
                return
            yield at

    def between(self, first: datetime, end: datetime) -> Iterator[datetime]:
        """Iterate over the fire times from `first` (included) to `end` (excluded)."""
        for number in range(self._count_before(first), self._count_before(end)):
            yield _EPOCH + number * self.length

    def last_before(self, end: datetime, *, first: datetime, most: int) -> list[datetime]:
        """Return the last `most` fire times from `first` (included) to `end` (excluded)."""
        stop = self._count_before(end)
        start = max(self._count_before(first), stop - most)
        return [_EPOCH + number * self.length for number in range(start, stop)]

    def preview(self, moment: datetime, most: int) -> list[FireTime]:
        """Return the next fire times; clock changes do not affect them."""
        times = islice(self.after(moment), most)
        return [FireTime(at, at.astimezone(self.zone), None) for at in times]

    def describe(self) -> str:
        """Return a description in English, such as: Every 1 hour 30 minutes."""
        parts = [
            f"{number} {word}{'' if number == 1 else 's'}"
            for _, word, number in _split(int(self.length.total_seconds()))
        ]
        return f"Every {' '.join(parts)}"

    def _count_before(self, moment: datetime) -> int:
        """Return the number of the first fire time at or after this moment."""
        return -((_EPOCH - moment) // self.length)


def parse_times(text: str, zone: str) -> Cron | Interval:
    """Parse a cron expression or an interval; raises Invalid as cron.parse does."""
    prefix, _, length = text.strip().partition(" ")
    if prefix.lower() != PREFIX:
        return cron.parse(text, zone)
    match = _LENGTH.fullmatch(length.strip())
    numbers = match.groups(default="0") if match else ()
    seconds = sum(int(number) * size for number, (*_, size) in zip(numbers, _UNITS, strict=False))
    if not 1 <= seconds <= LONGEST.total_seconds():
        raise Invalid(
            f"{PREFIX} must be followed by an interval such as 30s, 15m or 1h30m, from 1 second to"
            f" {LONGEST.days} days",
            field="cron",
            detail={"position": text.index("@") + len(PREFIX)},
        )
    return Interval(timedelta(seconds=seconds), cron.read_zone(zone))


def write_interval(seconds: float, *, field: str) -> str:
    """Return the schedule that fires at this interval, as text: `@every 1h30m`."""
    if not 1 <= seconds <= LONGEST.total_seconds() or seconds != int(seconds):
        raise Invalid(
            f"{field} must be a whole number of seconds, from 1 second to {LONGEST.days} days",
            field=field,
        )
    parts = (f"{number}{letter}" for letter, _, number in _split(int(seconds)))
    return f"{PREFIX} {''.join(parts)}"


def format_times(text: str) -> str:
    """Return `every 1 h 30 m` for the interval `@every 1h30m`; other schedules are unchanged."""
    prefix, _, length = text.strip().partition(" ")
    if prefix.lower() != PREFIX:
        return text
    return f"every {' '.join(re.findall('[0-9]+|[a-z]', length))}"


def _split(seconds: int) -> Iterator[tuple[str, str, int]]:
    """Yield each unit's letter, word and number, such as ("h", "hour", 1), except zeros."""
    for letter, word, size in _UNITS:
        number, seconds = divmod(seconds, size)
        if number:
            yield letter, word, number
