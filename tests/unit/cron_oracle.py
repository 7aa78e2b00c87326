"""An oracle for schedules around clock changes: it checks every minute and has no cron logic.

The rule: a schedule of every hour fires at each real minute for which the wall clock shows a
matching time. Any other schedule fires once for each calendar minute that it names: at the first
real minute for which the wall clock shows that time, or, if it never does, at the first one for
which the clock shows a later time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
AROUND = timedelta(hours=14)

# Zones with clock changes at midnight, of half an hour, of two hours, in summer and around Ramadan.
ZONES = (
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Havana",
    "America/New_York",
    "America/Santiago",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/London",
)


@dataclass(frozen=True, slots=True)
class Daily:
    """Minutes and hours of a daily schedule, and its cron text."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]

    def names(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours


def daily(text: str, minutes: range | list[int], hours: range | list[int]) -> Daily:
    return Daily(text, frozenset(minutes), frozenset(hours))


def changes(zone: ZoneInfo, first: int, last: int) -> Iterator[datetime]:
    """Return the first minute after each clock change, in UTC."""
    at, end = datetime(first, 1, 1, tzinfo=UTC), datetime(last + 1, 1, 1, tzinfo=UTC)
    step = timedelta(hours=12)
    while at < end:
        if _offset(at, zone) != _offset(at + step, zone):
            low, high = at, at + step
            while high - low > MINUTE:
                middle = low + (high - low) // MINUTE // 2 * MINUTE
                if _offset(middle, zone) == _offset(low, zone):
                    low = middle
                else:
                    high = middle
            yield high
        at += step


class Clock:
    """The wall clock of a zone at each minute around a clock change."""

    def __init__(self, zone: ZoneInfo, change: datetime) -> None:
        count = 2 * AROUND // MINUTE
        self.minutes = [change - AROUND + n * MINUTE for n in range(count)]
        self.shown = [at.astimezone(zone).replace(tzinfo=None) for at in self.minutes]

    def firings(self, schedule: Daily) -> list[datetime]:
        if len(schedule.hours) == 24:
            seen = zip(self.minutes, self.shown, strict=True)
            return [at for at, wall in seen if schedule.names(wall)]
        return sorted({self._first_shown(wall) for wall in self._calendar(schedule)})

    def _calendar(self, schedule: Daily) -> Iterator[datetime]:
        wall = self.shown[0]
        while wall <= self.shown[-1]:
            if schedule.names(wall):
                yield wall
            wall += MINUTE

    def _first_shown(self, wall: datetime) -> datetime:
        if wall in self.shown:
            return self.minutes[self.shown.index(wall)]
        return next(at for at, shown in zip(self.minutes, self.shown, strict=True) if shown > wall)


def _offset(at: datetime, zone: ZoneInfo) -> timedelta | None:
    return at.astimezone(zone).utcoffset()
