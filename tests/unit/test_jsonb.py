"""Encoding JSON for jsonb, and decoding it."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobforge.errors import Invalid
from jobforge.types.jsonb import decode, encode, replace_unencodable

NAN = float("nan")
WORDS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | WORDS | NUMBERS,
    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner),
)


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


UNSTORABLE = {
    "NaN": {"price": NAN},
    "infinity": {"price": float("inf")},
    "NaN in a list in an object": {"a": [{"b": (1.0, NAN)}]},
    "NUL": {"name": "a\0b"},
    "NUL in a name": {"a\0b": 1},
    "half a character": {"name": "\ud800"},
    "an integer of 5000 digits": {"n": 10**5000},
    "an integer of 65 bits": {"n": 2**64},
    "300 levels": _nested(300),
    "a set": {"n": {1, 2}},
    "a name that is a number": {1: 2},
}


@pytest.mark.parametrize("name", UNSTORABLE)
def test_a_value_that_jsonb_cannot_store_is_refused_with_its_field(name: str) -> None:
    with pytest.raises(Invalid) as refused:
        encode(UNSTORABLE[name], "payload")
    assert refused.value.field == "payload"


@pytest.mark.parametrize(
    ("value", "path", "what"),
    [
        ({"items": [{"price": 1.5}, {"price": NAN}]}, "$.items[1].price", "the number nan"),
        ({"a": {"n": 10**400}}, "$.a.n", "an integer of more than 64 bits"),
        ({"a": [Decimal("1e131071")]}, "$.a[0]", "a Decimal"),
        ({"a": ["x", "\0"]}, "$.a[1]", "the NUL character"),
    ],
)
def test_the_refusal_names_the_path_of_the_value(value: Any, path: str, what: str) -> None:
    with pytest.raises(Invalid) as refused:
        encode(value, "payload")
    assert refused.value.message == f"payload contains {what} at {path}, which cannot be stored"
    assert refused.value.detail == {"path": path}
    assert refused.value.hint is not None


@pytest.mark.parametrize("name", UNSTORABLE)
def test_a_value_that_jsonb_cannot_store_can_be_replaced(name: str) -> None:
    assert json.loads(encode(replace_unencodable(UNSTORABLE[name]), "error"))


@given(PLAIN)
def test_a_value_is_decoded_as_it_was_encoded(value: Any) -> None:
    assert decode(encode(value, "payload")) == value


@given(PLAIN)
def test_a_value_that_can_be_stored_is_not_replaced(value: Any) -> None:
    assert replace_unencodable(value) == value


@pytest.mark.parametrize("text", ["null", '"null"', '"\\\\u0000"', '[null, "a", {"null": null}]'])
def test_text_that_resembles_an_invalid_value_is_accepted(text: str) -> None:
    assert decode(encode(json.loads(text), "payload")) == json.loads(text)


@pytest.mark.parametrize("digits", [18, 19, 20, 40, 400, 4300])
def test_an_integer_of_any_length_is_read_exactly(digits: int) -> None:
    assert decode(f'{{"n": -{"7" * digits}}}') == {"n": -int("7" * digits)}


def test_an_integer_that_is_too_long_for_python_is_still_read_exactly() -> None:
    assert decode("7" * 5000) == Decimal("7" * 5000)
