"""Schedules: what cron expressions mean, clock changes, and what is refused."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.cron_oracle import AROUND, MINUTE, ZONES, Clock, changes, daily

from jobforge.errors import Invalid
from jobforge.scheduler import cron
from jobforge.scheduler.cron import ClockChange, Cron

NOW = datetime(2026, 6, 1, tzinfo=UTC)

SCHEDULES = (
    daily("* * * * *", range(60), range(24)),
    daily("*/15 * * * *", range(0, 60, 15), range(24)),
    daily("45 0-23 * * *", [45], range(24)),
    daily("0 0 * * *", [0], [0]),
    daily("30 0 * * *", [30], [0]),
    daily("30 1 * * *", [30], [1]),
    daily("15 2 * * *", [15], [2]),
    daily("30 2,3 * * *", [30], [2, 3]),
    daily("*/20 0-3 * * *", range(0, 60, 20), range(4)),
    daily("45 23 * * *", [45], [23]),
    daily("59 1-23/2 * * *", [59], range(1, 24, 2)),
    daily("* 2 * * *", range(60), [2]),
)


@pytest.mark.parametrize("name", ZONES)
def test_every_clock_change_fires_as_the_oracle_says(name: str) -> None:
    zone = ZoneInfo(name)
    found = list(changes(zone, 2024, 2030))
    assert len(found) >= 10
    for change in found:
        clock = Clock(zone, change)
        start, end = change - AROUND + timedelta(hours=3), change + AROUND - timedelta(hours=3)
        for schedule in SCHEDULES:
            expected = [at for at in clock.firings(schedule) if start <= at < end]
            firings = list(cron.parse(schedule.text, name).between(start, end))
            assert firings == expected, (name, change, schedule.text)
            assert all(one < other for one, other in pairwise(firings))


@pytest.mark.parametrize("name", ["America/New_York", "Australia/Lord_Howe", "America/Santiago"])
def test_the_next_firing_does_not_depend_on_the_starting_point(name: str) -> None:
    """A scheduler computes it again each time, also while the wall clock repeats an hour."""
    zone = ZoneInfo(name)
    for change in islice(changes(zone, 2026, 2027), 3):
        clock = Clock(zone, change)
        for schedule in SCHEDULES[2:9]:
            times, read = clock.firings(schedule), cron.parse(schedule.text, name)
            for offset in range(-150, 150, 7):
                moment = change + offset * MINUTE + timedelta(seconds=13)
                expected = [at for at in times if at > moment][:2]
                following = read.between(moment, clock.minutes[-1])
                assert list(islice(following, 2)) == expected, (change, schedule.text, moment)


@pytest.mark.parametrize(
    ("text", "zone", "after", "expected", "change"),
    [
        ("30 2 * * *", "America/New_York", "2026-03-08T00:00Z", "2026-03-08T07:00Z", "skipped"),
        ("30 1 * * *", "America/New_York", "2026-11-01T00:00Z", "2026-11-01T05:30Z", "repeated"),
        ("30 1 * * *", "America/New_York", "2026-11-01T05:30Z", "2026-11-02T06:30Z", None),
        ("*/30 * * * *", "America/New_York", "2026-11-01T05:30Z", "2026-11-01T06:00Z", "repeated"),
        ("0 0 * * *", "America/Santiago", "2026-09-06T00:00Z", "2026-09-06T04:00Z", "skipped"),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z", "2026-10-03T15:30Z", "skipped"),
        ("0 12 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T10:00Z", None),
    ],
)
def test_known_clock_changes(
    text: str, zone: str, after: str, expected: str, change: str | None
) -> None:
    [run] = cron.parse(text, zone).preview(datetime.fromisoformat(after), 1)
    assert run.at == datetime.fromisoformat(expected)
    assert run.change == (change and ClockChange(change))
    assert run.local.astimezone(UTC) == run.at


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("@hourly", "2026-06-01T01:00Z"),
        ("@daily", "2026-06-02T00:00Z"),
        ("@midnight", "2026-06-02T00:00Z"),
        ("@weekly", "2026-06-07T00:00Z"),
        ("@monthly", "2026-07-01T00:00Z"),
        ("@yearly", "2027-01-01T00:00Z"),
        (" @Annually ", "2027-01-01T00:00Z"),
        ("0 9 * * MON-FRI", "2026-06-01T09:00Z"),
        ("0 0 * * 7", "2026-06-07T00:00Z"),
        ("0 0 29 feb *", "2028-02-29T00:00Z"),
        ("0 0 13 * fri", "2026-06-05T00:00Z"),  # either of the two suffices
        ("0 0 13 * */7", "2026-09-13T00:00Z"),  # unless one begins with a star
        ("0 0 1-31 * 4", "2026-06-02T00:00Z"),
        ("0 0 13 * 0-7", "2026-06-02T00:00Z"),
        ("0 0 5-5/2 * *", "2026-06-05T00:00Z"),
        ("5/15 * * * *", "2026-06-01T00:05Z"),
        ("0 0 L * *", "2026-06-30T00:00Z"),
        ("0 0 LW 5 *", "2027-05-31T00:00Z"),
        ("0 0 * * 5#2", "2026-06-12T00:00Z"),
        ("0 0 * * 5L", "2026-06-26T00:00Z"),
    ],
)
def test_a_schedule_fires_first_at(text: str, first: str) -> None:
    assert cron.parse(text, "UTC").next_after(NOW) == datetime.fromisoformat(first)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("* * * *", 7),
        ("* * * * * *", 10),
        ("*/0 * * * *", 0),
        ("*/90 * * * *", 0),
        ("*/30,*/90 * * * *", 5),
        ("60 * * * *", 0),
        ("1,2,x * * * *", 4),
        ("1,,2 * * * *", 2),
        ("0 5-3 * * *", 2),
        ("0 0-24 * * *", 2),
        ("0 0 31 2 *", 4),
        ("0 0 30-31 feb *", 4),
        ("0 0 */29 2 MON#5", 4),
        ("0 0 15W * *", 4),
        ("0 0 * * 5#6", 8),
        ("@reboot", 0),
        ("1--100000000 * * * *", 0),
        ("٣ * * * *", 0),
        ("0 " * 60, cron.MAX_LENGTH),
    ],
)
def test_an_invalid_schedule_is_refused_with_the_position(text: str, position: int) -> None:
    with pytest.raises(Invalid) as refused:
        cron.parse(text, "UTC")
    assert refused.value.field == "cron"
    assert refused.value.detail["position"] == position


@pytest.mark.parametrize("zone", ["Mars/X", "", "../../etc/passwd", "/etc/localtime", "UTC\0"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(Invalid) as refused:
        cron.parse("@daily", zone)
    assert refused.value.field == "timezone"


def test_a_schedule_has_a_description_in_words() -> None:
    assert cron.parse("0 9 * * MON-FRI", "UTC").describe() == "At 09:00 on Monday through Friday"
    assert cron.parse("@daily", "UTC").describe() == "At 00:00 every day"


def test_years_of_missed_minutes_are_searched_from_the_end() -> None:
    every_minute = cron.parse("* * * * *", "Europe/Berlin")
    found = every_minute.last_before(NOW, first=NOW - timedelta(days=4000), most=100)
    assert found == [NOW - n * MINUTE for n in range(100, 0, -1)]
    yearly = cron.parse("@yearly", "UTC")
    found = yearly.last_before(NOW, first=NOW - timedelta(days=800), most=100)
    assert [at.year for at in found] == [2025, 2026]


_piece = st.sampled_from(
    [*"0123456789*,-/@LW#? ", "*/", "0 ", "* ", "MON", "jan", "31", "@daily", "\t", "é"]
)
_text = st.one_of(
    st.text(max_size=130),
    st.lists(_piece, max_size=40).map("".join),
    st.lists(st.sampled_from(["*", "0", "*/5", "1-5", "29", "31", "2", "SUN", "7", "1,2-9/3"]))
    .filter(lambda parts: len(parts) in {4, 5, 6})
    .map(" ".join),
)


@given(_text, st.sampled_from(ZONES))
def test_any_text_is_a_schedule_that_fires_or_is_refused_with_a_position(
    text: str, zone: str
) -> None:
    read = _read(text, zone)
    if isinstance(read, Invalid):
        assert read.field == "cron"
        assert 0 <= read.detail["position"] <= len(text)
        return
    following = read.next_after(NOW)
    assert following is not None
    assert following > NOW
    assert following.second == following.microsecond == 0
    assert read.describe()


def _read(text: str, zone: str) -> Cron | Invalid:
    try:
        return cron.parse(text, zone)
    except Invalid as refused:
        return refused
