"""Intervals: their fire times, and what is refused."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobforge.errors import Invalid
from jobforge.scheduler.cron import Cron
from jobforge.scheduler.interval import Interval, format_times, parse_times, write_interval

NOW = datetime(2026, 3, 29, 0, 59, 50, tzinfo=UTC)  # ten seconds before a clock change in Berlin

_moments = st.datetimes(
    min_value=datetime(1960, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(2090, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    timezones=st.just(UTC),
)
_lengths = st.integers(1, 365 * 86_400)


def interval(seconds: int) -> Interval:
    parsed = parse_times(write_interval(seconds, field="every"), "Europe/Berlin")
    assert isinstance(parsed, Interval)
    return parsed


def test_times_are_multiples_of_the_interval_and_ignore_clock_changes() -> None:
    assert list(islice(interval(30).after(NOW), 3)) == [
        NOW + timedelta(seconds=seconds) for seconds in (10, 40, 70)
    ]
    first, second = interval(3600).preview(NOW, 2)
    assert (first.local.hour, second.local.hour) == (3, 4)
    assert second.at - first.at == timedelta(hours=1)


@given(_lengths, _moments)
def test_the_next_time_is_at_most_one_interval_away(seconds: int, moment: datetime) -> None:
    following = interval(seconds).next_after(moment)
    assert following is not None
    assert timedelta() < following - moment <= timedelta(seconds=seconds)
    assert following.timestamp() % seconds == 0


@given(st.integers(1, 5000), _moments, st.integers(0, 10_000), st.integers(1, 20))
def test_the_last_times_are_the_end_of_all_times(
    seconds: int, first: datetime, period: int, most: int
) -> None:
    times, end = interval(seconds), first + timedelta(seconds=period)
    between = list(times.between(first, end))
    assert times.last_before(end, first=first, most=most) == between[-most:]
    assert all(first <= at < end for at in between)
    assert between[:1] == [
        at for at in islice(times.after(first - timedelta(microseconds=1)), 1) if at < end
    ]


@given(_lengths)
def test_a_written_interval_is_read_as_the_same_interval(seconds: int) -> None:
    assert interval(seconds).length == timedelta(seconds=seconds)


def test_there_are_no_times_after_the_last_year() -> None:
    assert interval(86_400).next_after(datetime(9999, 12, 31, 12, tzinfo=UTC)) is None


def test_an_interval_is_written_in_words() -> None:
    assert interval(5400).describe() == "Every 1 hour 30 minutes"
    assert format_times("@every 1h30m") == "every 1 h 30 m"
    assert format_times("0 9 * * *") == "0 9 * * *"
    assert isinstance(parse_times("@hourly", "UTC"), Cron)


@pytest.mark.parametrize(
    "text",
    [
        "@every",
        "@every 30",
        "@every 0s",
        "@every 366d",
        "@every 1m1h",
        "@every 1h 30m",
        "@every -1s",
    ],
)
def test_an_invalid_interval_is_refused_with_the_position(text: str) -> None:
    with pytest.raises(Invalid, match="followed by an interval such as 30s") as refused:
        parse_times(text, "UTC")
    assert (refused.value.field, refused.value.detail["position"]) == ("cron", 6)


def test_an_interval_needs_a_known_zone() -> None:
    with pytest.raises(Invalid, match="Unknown time zone"):
        parse_times("@every 30s", "Mars/X")
