"""Registered secret values, and their occurrences in a text.

A value is searched in several forms: as it is, JSON-escaped, as Python's repr, in HTML,
percent-encoded, in hexadecimal and inside base64, also if a line break splits it. Each form is
searched with `str.find`, which takes linear time (CPython 3.10 and later), so the time is
proportional to the text's length and to the number of forms.
"""

import base64
import json
import re
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote, quote_plus

SHORTEST = 8
# A shorter single word of letters is probably an ordinary word.
_SHORTEST_WORD = 12
_WORD = re.compile(r"[A-Z]?(?:[a-z]+|[A-Z]+)")
# Minimum length of a form's rest that is recognized at a cut.
_SHORTEST_REST = 4
# A line break in a text, and in an escaped text.
_LINE_END = re.compile(r"\r?\n[ \t]*+|(?:\\r)?\\n")
_LINE_ENDS = re.compile(rf"(?:{_LINE_END.pattern})+")
# Not the module html, which loads a table of all entity names.
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# Go escapes these in JSON, so that the JSON can be embedded in HTML.
_GO = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "&<>\u2028\u2029"})
# Up to this number, forms are searched one by one.
_FEW = 256
_COVERED = re.compile(rb"\x01+")
_lock = threading.Lock()


class SecretForm(NamedTuple):
    """One form in which a value may be written."""

    text: str
    value: str


# All forms, and an index of them by their first characters.
_Index = tuple[tuple[SecretForm, ...], dict[str, list[SecretForm]]]
_EMPTY: _Index = ((), {})


def can_be_hidden(value: str) -> bool:
    """Return whether a value is unlikely to occur in ordinary text.

    False below 8 characters, and below 12 for a single word of letters such as a table's name.
    """
    if len(value) < SHORTEST:
        return False
    return len(value) >= _SHORTEST_WORD or not _WORD.fullmatch(value)


class Registry:
    """A set of secret values. With `max_values`, the least recently registered one is evicted."""

    __slots__ = ("_index", "_max_values", "_values")

    def __init__(self, max_values: int | None = None) -> None:
        self._max_values = max_values
        self._values: OrderedDict[str, tuple[SecretForm, ...]] = OrderedDict()
        # Built on first use and replaced, never mutated (copy-on-write): readers take no lock.
        self._index: _Index | None = _EMPTY

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, value: str) -> bool:
        return value in self._values

    def add(self, value: str) -> bool:
        """Register a value; return False, without registering, if it cannot be hidden."""
        if not can_be_hidden(value):
            return False
        with _lock:
            if value in self._values:
                self._values.move_to_end(value)
                return True
            self._values[value] = tuple(SecretForm(form, value) for form in _forms(value))
            if self._max_values is not None and len(self._values) > self._max_values:
                self._values.popitem(last=False)
            self._index = None
        return True

    def candidates(self, text: str) -> Sequence[SecretForm]:
        """Return the forms to search: of many, only those whose start occurs in the text."""
        forms, by_start = self._index or self._build_index()
        if len(forms) <= min(len(text), _FEW):
            return forms
        starts = {
            start
            for position in range(len(text) - SHORTEST + 1)
            if (start := text[position : position + SHORTEST]) in by_start
        }
        return [form for start in starts for form in by_start[start]]

    def cut_value_length(self, text: str) -> int:
        """Return the length of the end of a value with which the text starts, or 0."""
        start = text[:_SHORTEST_REST]
        if not start.strip():
            return 0
        forms = [
            form.text for form in (self._index or self._build_index())[0] if start in form.text
        ]
        if not forms:
            return 0
        head = text[: max(map(len, forms))]
        table = _prefix_table(head)
        return max(_overlap(form, head, table) for form in forms)

    def _build_index(self) -> "_Index":
        with _lock:
            forms = tuple(form for forms in self._values.values() for form in forms)
            by_start: dict[str, list[SecretForm]] = {}
            for form in forms:
                by_start.setdefault(form.text[:SHORTEST], []).append(form)
            self._index = forms, by_start
            return self._index


def hide_forms(
    text: str, registries: Sequence[Registry], marker: str, *, is_shown: Callable[[str], bool]
) -> str:
    """Replace all occurrences of the values, except those for which `is_shown` is true."""
    covered = bytearray()
    forms = [form for each in registries for form in each.candidates(text)]
    for start, end in _spans(text, forms, is_shown):
        covered = covered or bytearray(len(text))
        covered[start:end] = b"\1" * (end - start)
    joined = _join_lines(text) if any(registries) else None
    if joined is not None:
        forms = [form for each in registries for form in each.candidates(joined.text)]
        for start, end in _spans(joined.text, forms, is_shown):
            covered = covered or bytearray(len(text))
            first, last = joined.original_position(start), joined.original_position(end - 1)
            covered[first : last + 1] = b"\1" * (last + 1 - first)
    return _replace_covered(text, covered, marker) if covered else text


def _spans(
    text: str, forms: Iterable[SecretForm], is_shown: Callable[[str], bool]
) -> Iterator[tuple[int, int]]:
    for form, value in forms:
        position = text.find(form)
        if position < 0 or is_shown(value):
            continue
        while position >= 0:
            yield position, position + len(form)
            position = text.find(form, position + len(form))


def _replace_covered(text: str, covered: bytearray, marker: str) -> str:
    """Replace each covered run with one marker."""
    parts: list[str] = []
    done = 0
    for run in _COVERED.finditer(covered):
        parts += (text[done : run.start()], marker)
        done = run.end()
    return "".join((*parts, text[done:]))


class _JoinedText(NamedTuple):
    """A text without single line breaks, and the positions of its pieces in the original."""

    text: str
    starts: list[int]
    shifts: list[int]

    def original_position(self, position: int) -> int:
        """Return the position in the original text."""
        return position + self.shifts[bisect_right(self.starts, position) - 1]


def _join_lines(text: str) -> _JoinedText | None:
    if "\n" not in text and "\\n" not in text:
        return None
    pieces: list[str] = []
    starts, shifts = [0], [0]
    done = length = 0
    for run in _LINE_ENDS.finditer(text):
        first = _LINE_END.match(text, run.start())
        if first is None or first.end() != run.end():
            continue  # an empty line separates two values
        pieces.append(text[done : run.start()])
        length += run.start() - done
        done = run.end()
        starts.append(length)
        shifts.append(done - length)
    return _JoinedText("".join((*pieces, text[done:])), starts, shifts) if pieces else None


def _prefix_table(text: str) -> list[int]:
    """Return the prefix function of Knuth, Morris and Pratt."""
    table = [0] * len(text)
    length = 0
    for index in range(1, len(text)):
        while length and text[index] != text[length]:
            length = table[length - 1]
        length += text[index] == text[length]
        table[index] = length
    return table


def _overlap(form: str, head: str, table: list[int]) -> int:
    """Return the length of the longest proper suffix of the form that begins the text."""
    length = 0
    for letter in form[1:]:
        if length == len(head):
            length = table[length - 1]
        while length and letter != head[length]:
            length = table[length - 1]
        length += letter == head[length]
    return length if length >= _SHORTEST_REST else 0


def _forms(value: str) -> Iterator[str]:
    seen: set[str] = set()
    raw = value.encode("utf-8", "surrogatepass")
    written = (
        *_escaped_forms(value, raw),
        *_html_forms(value),
        *_percent_encoded_forms(raw),
        *_base64_and_hex_forms(raw),
    )
    for form in (value, *written):
        if len(form) >= SHORTEST and form not in seen:
            seen.add(form)
            yield form


def _escaped_forms(value: str, raw: bytes) -> Iterator[str]:
    once = json.dumps(value)[1:-1]
    legible = json.dumps(value, ensure_ascii=False)[1:-1]
    yield from (once, once.replace("/", r"\/"))  # PHP escapes slashes
    yield from (legible, legible.replace("/", r"\/"), legible.translate(_GO))
    yield json.dumps(once)[1:-1]  # JSON within a JSON string
    yield from (repr(value)[1:-1], ascii(value)[1:-1], repr(raw)[2:-1])
    yield value.replace("\n", "\r\n")


def _html_forms(value: str) -> Iterator[str]:
    escaped = value.translate(_HTML)
    yield escaped
    # Quotes have several entity names in HTML.
    for apostrophe in ("&#x27;", "&#39;", "&#039;", "&apos;"):
        named = escaped.replace("'", apostrophe)
        yield from (named.replace('"', "&quot;"), named.replace('"', "&#34;"))


def _percent_encoded_forms(raw: bytes) -> Iterator[str]:
    for form in (quote(raw), quote(raw, safe=""), quote_plus(raw)):
        yield form
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match.group().lower(), form)


def _base64_and_hex_forms(raw: bytes) -> Iterator[str]:
    whole = base64.b64encode(raw).decode()
    yield from (whole, raw.hex(), raw.hex().upper())
    for before in range(3):
        yield from _within_base64(raw, before)


def _within_base64(raw: bytes, before: int) -> list[str]:
    """Return the base64 of the value after `before` bytes (modulo 3)."""
    encoded = base64.b64encode(bytes(before) + raw).decode()
    # The first and last characters also encode bits of adjacent bytes.
    middle = encoded[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6]
    return [middle, middle.replace("+", "-").replace("/", "_")]
