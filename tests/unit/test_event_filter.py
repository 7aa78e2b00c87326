"""Event filters: patterns of names, and conditions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobforge.errors import Invalid
from jobforge.scheduler import event_filter

PATTERNS = [
    ("order.paid", "order.paid", True),
    ("order.paid", "order.paid.late", False),
    ("order.paid", "order", False),
    ("order.*", "order.paid", True),
    ("order.*", "order.paid.late", True),
    ("order.*", "order", False),
    ("order.*", "orders.paid", False),
    ("order.paid.*", "order.paid", False),
    ("*", "order", True),
    ("a_b.*", "axb.c", False),
]


@pytest.mark.parametrize(("pattern", "name", "fits"), PATTERNS)
def test_a_name_matches_its_patterns(pattern: str, name: str, fits: bool) -> None:  # noqa: FBT001 - a column
    event_filter.check_pattern(pattern)
    assert event_filter.matches_pattern(pattern, name) is fits


@pytest.mark.parametrize(
    "pattern", ["", "*.paid", "order.*.x", "order*", "a b", "é", 7, None, "x" * 300]
)
def test_an_invalid_pattern_is_refused(pattern: Any) -> None:
    with pytest.raises(Invalid):
        event_filter.check_pattern(pattern)


EVENT = {
    "event": {
        "total": 120,
        "rate": 1.0,
        "paid": True,
        "gift": None,
        "currency": "EUR",
        "at": "2026-03-01",
        "items": [{"sku": "a"}],
    }
}


@pytest.mark.parametrize(
    ("path", "op", "value", "holds"),
    [
        ("event.currency", "eq", "EUR", True),
        ("event.currency", "eq", "eur", False),
        ("event.total", "eq", "120", False),
        ("event.total", "eq", 120.0, True),
        ("event.paid", "eq", 1, False),
        ("event.rate", "eq", True, False),
        ("event.gift", "eq", None, True),
        ("event.gift", "eq", False, False),
        ("event.items", "eq", [{"sku": "a"}], True),
        ("event.items", "eq", [{"sku": True}], False),
        ("event.items[0].sku", "ne", "b", True),
        ("event.total", "ne", "120", True),
        ("event.total", "ne", 120, False),
        ("event.missing", "ne", 1, False),
        ("event.missing", "eq", None, False),
        ("event.currency", "in", ["USD", "EUR"], True),
        ("event.paid", "in", [1, "true"], False),
        ("event.gift", "exists", True, True),
        ("event.missing", "exists", True, False),
        ("event.missing", "exists", False, True),
        ("event.currency", "prefix", "EU", True),
        ("event.total", "prefix", "12", False),
        ("event.total", "gt", 100, True),
        ("event.total", "gt", 120, False),
        ("event.total", "lt", 120.5, True),
        ("event.total", "gt", "100", False),
        ("event.paid", "gt", 0, False),
        ("event.at", "lt", "2026-04", True),
        ("event.at", "gt", 5, False),
    ],
)
def test_a_condition_is_evaluated(path: str, op: str, value: Any, holds: bool) -> None:  # noqa: FBT001 - a column
    conditions = event_filter.parse([{"path": path, "op": op, "value": value}])
    assert event_filter.matches(conditions, EVENT) is holds


def test_all_conditions_must_be_true() -> None:
    good = {"path": "event.paid", "op": "eq", "value": True}
    bad = {"path": "event.total", "op": "lt", "value": 5}
    assert event_filter.matches(event_filter.parse([]), EVENT)
    assert event_filter.matches(event_filter.parse([good, good]), EVENT)
    assert not event_filter.matches(event_filter.parse([good, bad]), EVENT)


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ({}, "filter"),
        ("event.a", "filter"),
        ([{"path": "event.a", "op": "exists"}] * 51, "filter"),
        (["x"], "filter.0"),
        ([{"path": "event.a", "value": 1}], "filter.0"),
        ([{"path": "event.a", "op": "eq", "value": 1, "not": True}], "filter.0"),
        ([{"path": "event.a", "op": "eq"}], "filter.0.value"),
        ([{"path": "event.a", "op": "matches", "value": ".*"}], "filter.0.op"),
        ([{"path": "event.a", "op": ["eq"], "value": 1}], "filter.0.op"),
        ([{"path": 7, "op": "eq", "value": 1}], "filter.0.path"),
        ([{"path": "event..a", "op": "eq", "value": 1}], "filter.0.path"),
        ([{"path": "a", "op": "eq", "value": 1}], "filter.0.path"),
        ([{"path": "event.a | json", "op": "eq", "value": 1}], "filter.0.path"),
        ([{"path": "event.a", "op": "in", "value": "EUR"}], "filter.0.value"),
        ([{"path": "event.a", "op": "in", "value": []}], "filter.0.value"),
        ([{"path": "event.a", "op": "in", "value": [1] * 101}], "filter.0.value"),
        ([{"path": "event.a", "op": "exists", "value": 1}], "filter.0.value"),
        ([{"path": "event.a", "op": "prefix", "value": 1}], "filter.0.value"),
        ([{"path": "event.a", "op": "gt", "value": True}], "filter.0.value"),
        ([{"path": "event.a", "op": "lt", "value": None}], "filter.0.value"),
        ([{"path": "event.a", "op": "eq", "value": "x" * 70_000}], "filter"),
    ],
)
def test_an_invalid_filter_is_refused_with_the_position(written: Any, field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        event_filter.check(written)
    assert refusal.value.field == field


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)
LINES = st.fixed_dictionaries(
    {
        "path": st.sampled_from(["event", "event.a", "event.a[0]", "meta.id"])
        | st.text(max_size=5),
        "op": st.sampled_from(["eq", "ne", "in", "exists", "prefix", "gt", "lt", "or"]),
        "value": JSON,
    }
)


@given(st.lists(LINES, max_size=4) | JSON, JSON)
def test_any_filter_is_refused_or_evaluated(written: Any, data: Any) -> None:
    try:
        conditions = event_filter.parse(written)
    except Invalid as refusal:
        assert (refusal.field or "").startswith("filter")  # noqa: PT017 - either may happen
    else:
        assert event_filter.matches(conditions, {"event": data}) in {True, False}


@given(JSON)
def test_a_value_equals_itself_and_is_never_both_equal_and_unequal(value: Any) -> None:
    values = {"event": {"a": value}}
    equal, unequal = (
        event_filter.parse([{"path": "event.a", "op": op, "value": value}]) for op in ("eq", "ne")
    )
    assert event_filter.matches(equal, values)
    assert not event_filter.matches(unequal, values)
