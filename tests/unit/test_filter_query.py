"""`--where`, a filter of jobs as one string, and the values of other options."""

from datetime import UTC, datetime, timedelta

import pytest

from jobforge.cli.filter_query import parse_query
from jobforge.cli.time_args import parse_rate_per_second, parse_time_or_age
from jobforge.errors import Invalid

STATES = ("queued", "dead", "failed")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", {}),
        ("  ", {}),
        ("state:dead", {"state": ["dead"]}),
        ("state:dead,failed is:queued", {"state": ["dead", "failed", "queued"]}),
        ("DEF:mail queue:post", {"definition": "mail", "queue": "post"}),
        ('tag:"a b" key:x', {"tag": "a b", "key": "x"}),
        ("key:order:7:paid", {"key": "order:7:paid"}),
        (
            "corr:c fp:f source:event",
            {"correlation_id": "c", "fingerprint": "f", "source": "event"},
        ),
        (
            "created_after:2026-01-01T10:00Z before:2026-01-02T10:00Z",
            {
                "created_after": datetime(2026, 1, 1, 10, tzinfo=UTC),
                "created_before": datetime(2026, 1, 2, 10, tzinfo=UTC),
            },
        ),
    ],
)
def test_the_terms_of_a_query_select_jobs(text: str, said: dict[str, object]) -> None:
    assert parse_query(text, STATES) == said


def test_an_age_is_relative_to_now() -> None:
    before = datetime.now(UTC)
    moment = parse_query("since:2h", STATES)["created_after"]
    assert before <= moment + timedelta(hours=2) <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mail", "Invalid term 'mail'"),
        ("color:red", "Invalid term 'color:red'"),
        (":dead", "Invalid term ':dead'"),
        ('tag:"a b', "Unclosed quote"),
        ("tag:", "Missing value for 'tag:'"),
        ('tag:""', "Missing value for 'tag:'"),
        ("queue:a queue:b", "Duplicate term 'queue:'"),
        ("after:1h since:2h", "Duplicate term 'created_after:'"),
        ("state:dead,", "not ''"),
        ("state:asleep", "not 'asleep'"),
        ("before:yesterday", "not 'yesterday'"),
        ("before:2026-13-01", "not '2026-13-01'"),
        ("before:9999999999d", "too far in the past"),
    ],
)
def test_an_invalid_term_is_refused(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        parse_query(text, STATES)


def test_the_hint_lists_all_terms_and_the_nearest_one() -> None:
    with pytest.raises(Invalid) as refused:
        parse_query("defintion:mail", STATES)
    assert "Did you mean definition:?" in str(refused.value.hint)
    for name in ("state:", "tag:", "created_before:"):
        assert name in str(refused.value.hint)


@pytest.mark.parametrize(
    ("text", "per_second"),
    [("10", 10), ("0.5", 0.5), ("10/s", 10), ("600/m", 10), ("5/30s", 1 / 6), ("36/h", 0.01)],
)
def test_a_rate_may_have_a_unit_or_be_a_number_per_second(text: str, per_second: float) -> None:
    assert parse_rate_per_second(text, "--rate") == pytest.approx(per_second)


@pytest.mark.parametrize("text", ["", "fast", "-1", "1e3", "nan", "10/", "10/0s", "/s", "0.5/s"])
def test_an_invalid_rate_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="--rate must be a rate such as 10, 10/s or 600/m"):
        parse_rate_per_second(text, "--rate")


def test_a_past_time_is_a_time_or_an_age() -> None:
    assert parse_time_or_age("2026-01-01T00:00Z", "--since") == datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(Invalid, match="--since must be a time such as"):
        parse_time_or_age("soon", "--since")
