"""Templates: what they accept, and how they are rendered."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobforge.errors import Invalid
from jobforge.scheduler import template
from jobforge.scheduler.template import MOST_BYTES, MOST_TAGS

VALUES = {
    "event": {
        "id": 7,
        "total": 1.5,
        "paid": True,
        "gift": None,
        "to": "ada",
        "items": [{"sku": "a-1"}, {"sku": "a-2"}],
        "said": "{{event.to}} {{secret}}",
        "odd-name": "yes",
    }
}


@pytest.mark.parametrize(
    ("written", "rendered"),
    [
        ("plain", "plain"),
        (5, 5),
        ("{{event.id}}", 7),
        ("{{ event.paid }}", True),
        ("{{event.gift}}", None),
        ("{{event.items}}", VALUES["event"]["items"]),
        ("{{event.items[1].sku}}", "a-2"),
        ("{{event.odd-name}}", "yes"),
        ("no. {{event.id}} for {{event.to}}", "no. 7 for ada"),
        ("{{event.paid}}/{{event.gift}}/{{event.items[0]}}", 'true/null/{"sku":"a-1"}'),
        (" {{event.id}}", " 7"),
        ("{{event.to | json}}", '"ada"'),
        ("{{event.items[0]|json}}", '{"sku":"a-1"}'),
        ('{{event.x | default("none")}}', "none"),
        ("{{event.x.y[3] | default(null)}}", None),
        ('{{event.x | default({"a": {"b": "}}"}}) }}', {"a": {"b": "}}"}}),
        ("{{event.x | default([1, 2]) | json}}!", "[1,2]!"),
        ("{{event.gift | default(1)}}", None),
        ({"a": ["{{event.id}}", {"b": "{{event.to}}"}]}, {"a": [7, {"b": "ada"}]}),
        ("{ {event.id} } }}", "{ {event.id} } }}"),
        ("{{event.said}}", "{{event.to}} {{secret}}"),
        ("he said {{event.said}}", "he said {{event.to}} {{secret}}"),
    ],
)
def test_a_template_renders(written: Any, rendered: Any) -> None:
    assert template.render(written, VALUES) == rendered


@pytest.mark.parametrize(
    ("written", "field", "message"),
    [
        ("{{", "payload", "expected a path at character 3"),
        ("{{event.id", "payload", "`| default(…)` at character 11"),
        ("{{ {{event.id}} }}", "payload", "expected a path at character 3"),
        ("{{event.id}}{{}}", "payload", "expected a path at character 15"),
        ("{{event.id()}}", "payload", "`| default(…)` at character 11"),
        ("{{event..id}}", "payload", "`| default(…)` at character 8"),
        ("{{event[x]}}", "payload", "`| default(…)` at character 8"),
        ("{{event[-1]}}", "payload", "`| default(…)` at character 8"),
        ("{{event.id | upper}}", "payload", "`| default(…)` at character 12"),
        ("{{event.id | default}}", "payload", "`| default(…)` at character 12"),
        ("{{event.id | default()}}", "payload", "expected a JSON literal"),
        ("{{event.id | default(NaN)}}", "payload", "expected a JSON literal"),
        ("{{event.id | default(1}}", "payload", "expected `)`"),
        ('{{event.id | default("\\u0000")}}', "payload", "expected a JSON literal"),
        (f"{{{{event.id | default({'[' * 9000})}}}}", "payload", "expected a JSON literal"),
        ("{{event.id" + " | json" * 5 + "}}", "payload", "at most 4 filters"),
        ({"a": [1, "{{"]}, "payload.a.1", "expected a path"),
        ({"{{event.id}}": 1}, "payload", "member names cannot contain tags"),
        ("{{event.__class__}}", "payload", "event.__class__ not found"),
        ("{{event.id.real}}", "payload", "event.id.real not found"),
        ("{{event.to.upper}}", "payload", "event.to.upper not found"),
        ("{{event.items.0}}", "payload", "event.items.0 not found"),
        ("{{event.items[2]}}", "payload", "event.items[2] not found"),
        ("{{event[0]}}", "payload", "event[0] not found"),
        ({"to": "{{event.x.y.z}}"}, "payload.to", "event.x.y.z not found"),
        ("{{secret}}", "payload", "secret not found"),
        ("{{event.id}}" * (MOST_TAGS + 1), "payload", f"at most {MOST_TAGS} tags"),
        ("x" * (MOST_BYTES + 1), "payload", "larger than 256 KiB"),
    ],
)
def test_an_invalid_template_is_refused_with_the_position(
    written: Any, field: str, message: str
) -> None:
    with pytest.raises(Invalid, match=None) as refusal:
        template.render(written, VALUES)
    assert refusal.value.field == field
    assert message in refusal.value.message


def test_a_check_knows_the_first_names_of_paths() -> None:
    template.check({"a": "{{event.any.thing}}"}, roots=("event", "meta"))
    with pytest.raises(Invalid, match="a path must start with event or meta, not 'secret'"):
        template.check({"a": "{{secret.key}}"}, roots=("event", "meta"))


@pytest.mark.parametrize("written", ["{{event.big}}" * 3, ["{{event.big}}"] * 3])
def test_the_rendered_value_stays_within_the_limit(written: Any) -> None:
    with pytest.raises(Invalid, match="larger than 256 KiB"):
        template.render(written, {"event": {"big": "x" * 100_000}})


def test_filters_cannot_expand_small_values_without_limit() -> None:
    with pytest.raises(Invalid, match="larger than 256 KiB"):
        template.render("{{event.q | json | json | json | json}}", {"event": {"q": '"' * 60_000}})


def test_a_template_that_the_engine_could_not_return_is_invalid() -> None:
    with pytest.raises(Invalid, match="payload cannot be read: too long"):
        template.parse({"$unreadable": "too long"})


def test_nesting_that_the_engine_refuses_is_refused() -> None:
    deep: Any = "{{event.id}}"
    for _ in range(65):
        deep = [deep]
    with pytest.raises(Invalid, match="nested more than 64 levels deep"):
        template.check(deep)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
PIECES = [
    "{{",
    "}}",
    "event",
    ".a",
    "[0]",
    "|",
    "json",
    "default(",
    ")",
    '"x"',
    " ",
    "é",
    "{",
    "\\",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join), JSON)
@example('{{event.a|default("\\ud800")}}', {})
def test_any_text_is_rendered_or_refused(text: str, data: Any) -> None:
    try:
        rendered = template.render(text, {"event": data})
    except Invalid as refusal:
        assert refusal.field == "payload"  # noqa: PT017 - either may happen
    else:
        assert len(json.dumps(rendered)) <= 6 * MOST_BYTES


@given(JSON)
def test_a_value_passes_unchanged_through_a_single_tag(data: Any) -> None:
    try:
        assert template.render({"x": "{{event}}"}, {"event": data}) == {"x": data}
    except Invalid as refusal:  # half of a surrogate pair, or NUL
        assert "x" in (refusal.field or "")  # noqa: PT017 - either may happen
