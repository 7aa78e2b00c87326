"""Exceptions that handlers raise, and their data."""

from datetime import UTC, datetime, timedelta

import pytest

from jobforge.errors import Invalid
from jobforge.sdk.outcome_exceptions import Cancel, Cancelled, Dead, Retry, Snooze


def test_a_retry_is_an_outcome_with_its_delay() -> None:
    assert Retry(after=30).after_s == 30
    assert Retry("busy", after=timedelta(minutes=1)).after_s == 60
    assert Retry().after_s is None
    assert str(Retry("busy")) == "busy"


def test_a_retry_policy_has_the_defaults_of_the_engine() -> None:
    policy = Retry(max_attempts=8, cap=timedelta(hours=2), give_up_on=(ValueError,))
    assert (policy.max_attempts, policy.base_s, policy.cap_s) == (8, 1, 7200)
    assert policy.give_up_on == (ValueError,)


def test_a_snooze_is_a_delay_or_a_time() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    assert (Snooze(60).delay_s, Snooze(60).run_at) == (60, None)
    assert (Snooze(moment).delay_s, Snooze(moment).run_at) == (None, moment)


@pytest.mark.parametrize("duration", [-1, float("nan"), float("inf"), True, "soon"])
def test_an_invalid_duration_is_refused(duration: float) -> None:
    with pytest.raises(Invalid) as refusal:
        Retry(after=duration)
    assert refusal.value.field == "after"


def test_a_time_needs_a_time_zone() -> None:
    with pytest.raises(Invalid, match="time zone"):
        Snooze(datetime(2030, 1, 1))  # noqa: DTZ001 - the missing time zone is the error


def test_reasons_are_kept() -> None:
    assert (Cancel("gone").reason, str(Cancel("gone"))) == ("gone", "gone")
    assert (Dead("broken").reason, str(Dead("broken"))) == ("broken", "broken")
    assert str(Dead())


def test_a_cancellation_is_not_caught_by_except_exception() -> None:
    assert not issubclass(Cancelled, Exception)
