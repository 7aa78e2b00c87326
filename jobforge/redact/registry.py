"""Values that are known to be secret, found in a text in whatever form they were written.

A value is looked for as it is, JSON-escaped, as Python shows it, in HTML, percent-encoded, in
hexadecimal, and inside base64; of eight characters or more also when a line ends in the midst of
it. Each form is filed under its first four characters, so that a text is read once however many
values there are.
"""

import base64
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 4
# Enough for the secrets of a worker. Beyond it the one registered longest ago is forgotten.
MOST = 1000
# Base64 and hexadecimal of less would be found in ordinary words.
_SHORTEST_ENCODED = 8
# So many are looked for one by one, which is faster, before the text is read.
_FEW = 64
# How a line ends in a text, and in one that was escaped.
_LINE_END = re.compile(r"\r?\n[ \t]*+|(?:\\r)?\\n")
# By hand: the module html brings a table of all names that there are.
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# Go escapes these in JSON, so that it may stand in HTML.
_GO = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "&<>\u2028\u2029"})
_TRIVIAL = frozenset(("true", "false", "null", "none", "undefined", "localhost", "postgres"))


class Registry:
    """The secret values of this process."""

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._lock = threading.Lock()
        self._values: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._by_start: dict[str, tuple[str, ...]] = {}
        self.changes = 0  # what was found before the last one may be found no more, or the reverse

    def add(self, value: str) -> None:
        if len(value) < SHORTEST or value.lower() in _TRIVIAL or value in self._marker:
            return
        with self._lock:
            if value in self._values:
                self._values.move_to_end(value)
                return
            self._values[value] = forms = tuple(_forms(value))
            for form in forms:
                self._file(form)
            if len(self._values) > MOST:
                self._forget(self._values.popitem(last=False)[1])
            self.changes += 1

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._by_start.clear()
            self.changes += 1

    def hide(self, text: str) -> str:
        """The text with every known value replaced."""
        filed = self._by_start
        if not filed:
            return text
        if len(filed) <= _FEW and not any(start in text for start in tuple(filed)):
            return text
        parts: list[str] = []
        done = place = 0
        last = len(text) - SHORTEST
        while place <= last:
            forms = filed.get(text[place : place + SHORTEST])
            end = _longest_at(text, place, forms) if forms else 0
            if not end:
                place += 1
                continue
            parts += (text[done:place], self._marker)
            done = place = end
        return "".join((*parts, text[done:])) if parts else text

    def without_half(self, text: str) -> str:
        """The text without the rest of a known value whose beginning was cut off before it."""
        start = text[:SHORTEST]
        if not start.strip():
            return text
        with self._lock:
            forms = [form for forms in self._values.values() for form in forms if start in form]
        longest = max((_half_at_the_start(text, start, form) for form in forms), default=0)
        return text[longest:]

    def _file(self, form: str) -> None:
        # A new tuple instead of a changed list: readers take no lock.
        start = form[:SHORTEST]
        others = [other for other in self._by_start.get(start, ()) if other != form]
        self._by_start[start] = tuple(sorted([*others, form], key=len, reverse=True))

    def _forget(self, forms: tuple[str, ...]) -> None:
        kept = {form for others in self._values.values() for form in others}
        for form in forms:
            if form in kept:
                continue
            start = form[:SHORTEST]
            left = tuple(other for other in self._by_start.get(start, ()) if other != form)
            if left:
                self._by_start[start] = left
            else:
                self._by_start.pop(start, None)


def _longest_at(text: str, place: int, forms: tuple[str, ...]) -> int:
    for form in forms:
        if text.startswith(form, place):
            return place + len(form)
    for form in forms:
        if len(form) >= _SHORTEST_ENCODED and _LINE_END.search(text, place, place + len(form) + 4):
            end = _end_across_lines(text, place, form)
            if end:
                return end
    return 0


def _end_across_lines(text: str, place: int, form: str) -> int:
    """0 when it is not there; base64 is often written in lines."""
    for letter in form:
        if not text.startswith(letter, place):
            line_end = _LINE_END.match(text, place)
            if line_end is None or not text.startswith(letter, line_end.end()):
                return 0
            place = line_end.end()
        place += 1
    return place


def _half_at_the_start(text: str, start: str, form: str) -> int:
    place = form.find(start, 1)
    while place > 0:
        if text.startswith(form[place:]):
            return len(form) - place
        place = form.find(start, place + 1)
    return 0


def _forms(value: str) -> Iterator[str]:
    seen: set[str] = set()
    raw = value.encode("utf-8", "surrogatepass")
    written = (*_escaped(value, raw), *_in_html(value), *_quoted(raw), *_encoded(raw))
    for form in (value, *written):
        if len(form) >= SHORTEST and form not in seen:
            seen.add(form)
            yield form


def _escaped(value: str, raw: bytes) -> Iterator[str]:
    once = json.dumps(value)[1:-1]
    legible = json.dumps(value, ensure_ascii=False)[1:-1]
    yield from (once, once.replace("/", r"\/"))  # as PHP has it
    yield from (legible, legible.replace("/", r"\/"), legible.translate(_GO))
    yield json.dumps(once)[1:-1]  # JSON in a text of JSON
    yield from (repr(value)[1:-1], ascii(value)[1:-1], repr(raw)[2:-1])
    yield value.replace("\n", "\r\n")


def _in_html(value: str) -> Iterator[str]:
    escaped = value.translate(_HTML)
    yield escaped
    # Quotes have several names there.
    for apostrophe in ("&#x27;", "&#39;", "&#039;", "&apos;"):
        named = escaped.replace("'", apostrophe)
        yield from (named.replace('"', "&quot;"), named.replace('"', "&#34;"))


def _quoted(raw: bytes) -> Iterator[str]:
    for form in (quote(raw), quote(raw, safe=""), quote_plus(raw)):
        yield form
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match.group().lower(), form)


def _encoded(raw: bytes) -> Iterator[str]:
    whole = base64.b64encode(raw).decode()
    yield from (form for form in (whole,) if len(form) >= _SHORTEST_ENCODED)
    candidates = [raw.hex(), raw.hex().upper()]
    for before in range(3):
        candidates += _within_base64(raw, before)
    yield from (form for form in candidates if len(form) >= _SHORTEST_ENCODED)


def _within_base64(raw: bytes, before: int) -> list[str]:
    """What base64 shows of the value when so many bytes (modulo 3) stand before it."""
    encoded = base64.b64encode(bytes(before) + raw).decode()
    # Characters at both ends also hold bits of the neighbours.
    own = encoded[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6]
    return [own, own.replace("+", "-").replace("/", "_")]
