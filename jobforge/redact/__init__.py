"""Hides secrets in whatever is shown: log lines, output tails, errors, views of payloads.

Three things make a value secret: the name it stands under (names.py), its form (shapes.py, and
assignments.py for names within a text), and having been registered (registry.py). Nothing here
raises, reads a text more than a few times over, or changes what it has changed once.
"""

import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from uuid import UUID

from jobforge.errors import Json
from jobforge.redact.assignments import hide_assigned
from jobforge.redact.names import is_secret_name
from jobforge.redact.registry import Registry
from jobforge.redact.shapes import hide_private_keys, hide_shapes, without_pem_end

__all__ = [
    "MARKER",
    "hide_registered",
    "is_secret_name",
    "redact",
    "redact_head",
    "redact_tail",
    "redact_text",
    "register_secret",
]

MARKER = "[redacted]"

_DEEPEST = 100
_LONGEST_AT_CUT = 4096
_LONGEST_REMEMBERED = 100
# Asked about by the thousand, and a union that is written out is made anew each time.
_PLAIN = (bool, UUID, datetime, date, time)
_NUMBERS = (int, float, Decimal)
_CONTAINERS = (dict, list, tuple, set, frozenset, Mapping)
_MAPPINGS = (dict, Mapping)
# Ids, numbers and times: neither a secret's name nor the form of one can be made of these.
_FIGURES = re.compile(r"[0-9a-f.:-]*")
_HALF = "\N{REPLACEMENT CHARACTER}"  # what a cut through a character leaves
_registry = Registry(MARKER)


def register_secret(value: str) -> None:
    """From now on this value is hidden wherever it appears; it must have four characters."""
    _registry.add(value)


def redact(value: Json) -> Json:
    """The value with every secret in it hidden; what JSON cannot hold becomes a text."""
    return _redacted(value, 0)


def redact_text(text: str) -> str:
    """The text with every secret in it hidden."""
    if _FIGURES.fullmatch(text):
        return _registry.hide(text)
    # Private keys first: they hold lines and signs that the others would take for ends.
    without_keys = hide_private_keys(_registry.hide(text), MARKER)
    return hide_shapes(hide_assigned(without_keys, MARKER), MARKER)


def hide_registered(text: str) -> str:
    """The text with registered values hidden, and all else as it is: for what is kept."""
    return _registry.hide(text)


def redact_tail(text: str, *, is_cut: bool) -> str:
    """The end of an output with every secret hidden, also one that the cut went through.

    When `is_cut`, more came before. The first line is then incomplete and is left out, up to 4,096
    characters of it; so is the rest of a registered value or private key of several lines.
    """
    if not is_cut:
        return redact_text(text)
    whole = without_pem_end(_registry.without_half(text.lstrip(_HALF)), MARKER)
    redacted = redact_text(whole)
    line = redacted.find("\n", 0, _LONGEST_AT_CUT)
    return redacted[line + 1 if line >= 0 else _LONGEST_AT_CUT :]


def redact_head(text: str, *, is_cut: bool) -> str:
    """The beginning of a text with every secret hidden, also one that the cut went through.

    When `is_cut`, more came after; the last 4,096 characters are then left out.
    """
    redacted = redact_text(text)
    return redacted[:-_LONGEST_AT_CUT] if is_cut else redacted


def _redacted(value: Json, depth: int) -> Json:
    if type(value) is str and len(value) <= _LONGEST_REMEMBERED:
        return _remembered_text(value, _registry.changes)
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, _NUMBERS):
        return _redacted_number(value)
    if isinstance(value, _CONTAINERS):
        return _redacted_container(value, depth) if depth < _DEEPEST else MARKER
    return redact_text(_text(value))


def _redacted_container(value: Json, depth: int) -> Json:
    if isinstance(value, _MAPPINGS):
        return _redacted_mapping(value, depth)
    return [_redacted_element(element, depth + 1) for element in value]


def _redacted_mapping(value: Mapping[Json, Json], depth: int) -> dict[str, Json]:
    named = _secret_is_named(value)
    shown = {}
    for key, element in value.items():
        name, is_secret = _redacted_name(key)
        if is_secret or (named and key == "value"):
            shown[name] = _hidden(element)
        else:
            shown[name] = _redacted(element, depth + 1)
    return shown


def _redacted_name(key: Json) -> tuple[str, bool]:
    """As it may be shown, and whether a secret stands under it."""
    if type(key) is str and len(key) <= _LONGEST_REMEMBERED:
        return _remembered_name(key, _registry.changes)
    name = _text(key)
    return redact_text(name), is_secret_name(name)


@lru_cache(maxsize=4096)
def _remembered_name(name: str, _: int) -> tuple[str, bool]:
    """Names repeat."""
    return redact_text(name), is_secret_name(name)


@lru_cache(maxsize=4096)
def _remembered_text(text: str, _: int) -> str:
    """So do short texts: states, queues, routes, who did it."""
    return redact_text(text)


def _redacted_element(value: Json, depth: int) -> Json:
    """An element of a list; a pair there may be a name and its value, as headers often come."""
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str | bytes):
        name = _text(value[0])
        if is_secret_name(name):
            return [redact_text(name), _hidden(value[1])]
    return _redacted(value, depth)


def _secret_is_named(value: Mapping[Json, Json]) -> bool:
    """`{"name": "Authorization", "value": …}`, as headers and variables are also written."""
    if "value" not in value:
        return False
    names = (value.get("name"), value.get("key"))
    return any(isinstance(name, str) and is_secret_name(name) for name in names)


def _hidden(value: Json) -> Json:
    """What stands under a secret name: that nothing is there, or a flag, tells no secret."""
    return value if value is None or isinstance(value, bool) or value == "" else MARKER


def _redacted_number(value: float | Decimal) -> Json:
    text = _text(value)
    if redact_text(text) != text:
        return MARKER
    return value if not isinstance(value, Decimal) else text


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    try:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).decode("utf-8", "backslashreplace")
        return str(value)
    except Exception:  # noqa: BLE001 - a foreign object's own code; a log line must not fail by it
        return f"<{type(value).__name__}>"
