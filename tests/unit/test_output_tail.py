"""The tail of an output: short, whole characters, no terminal control characters, no secrets."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobforge.worker.isolation.output_tail import TAIL_BYTES, OutputTail, escape_control_characters


def _tail(*pieces: bytes, limit: int = TAIL_BYTES) -> str | None:
    tail = OutputTail(limit)
    for piece in pieces:
        tail.feed(piece)
    return tail.text()


def test_empty_output_has_no_tail() -> None:
    assert _tail() is None
    assert _tail(b"") is None


def test_a_short_output_is_kept_completely() -> None:
    assert _tail(b"one\n", b"two\n") == "one\ntwo\n"


def test_a_character_may_arrive_in_parts() -> None:
    assert _tail(b"\xe2", b"\x82", b"\xac") == "€"


def test_the_first_line_after_a_cut_is_omitted() -> None:
    assert _tail(b"first line\nsecond\nthird\n", limit=16) == "second\nthird\n"


def test_a_long_output_never_fills_more_than_the_limit() -> None:
    text = _tail(*[b"line of thirty characters ....\n"] * 10_000)
    assert text is not None
    assert len(text.encode()) <= TAIL_BYTES
    assert text.endswith("line of thirty characters ....\n")
    assert text.startswith("line of thirty")


def test_symbols_for_control_characters_do_not_exceed_the_limit() -> None:
    text = _tail(b"x\n" + b"\x1b" * TAIL_BYTES)
    assert text is not None
    assert len(text.encode()) <= TAIL_BYTES


@pytest.mark.attack("terminal escapes")
@given(st.lists(st.binary(max_size=40), max_size=20))
def test_no_output_yields_half_a_character_or_a_control_character(pieces: list[bytes]) -> None:
    text = _tail(*pieces, limit=64) or ""
    text.encode()
    assert len(text.encode()) <= 64
    for character in text:
        assert character in "\n\t" or unicodedata.category(character) != "Cc"


@given(st.text(alphabet="a€😀\n", max_size=200))
def test_a_cut_is_between_characters(text: str) -> None:
    shown = _tail(text.encode(), limit=64) or ""
    assert "\N{REPLACEMENT CHARACTER}" not in shown
    assert text.endswith(shown)


@pytest.mark.attack("terminal escapes")
def test_control_characters_are_replaced_by_symbols() -> None:
    assert (
        escape_control_characters("\x1b[31mred\x07\0\x7f\x9b\r\n\t\rx") == "␛[31mred␇␀␡\\x9b\n\t␍x"
    )


@pytest.mark.attack("terminal escapes")
def test_text_direction_cannot_be_reversed() -> None:
    assert escape_control_characters("abc\u202edcba") == "abc\\u202edcba"


def test_secrets_are_hidden() -> None:
    text = _tail(b"password=hunter2hunter2\n")
    assert text is not None
    assert "hunter2" not in text
