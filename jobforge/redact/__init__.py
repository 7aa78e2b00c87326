"""Hides secrets in all output: log lines, output tails, errors, displayed payloads.

A value is secret because of its name (names.py; assignments.py for names within text), its form
(shapes.py), or because it was registered (registry.py). Functions of this package never raise, read
a text a small number of times, and are idempotent.
"""

import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from uuid import UUID

from jobforge.errors import Json
from jobforge.redact.assignments import hide_assignments
from jobforge.redact.names import is_secret_name
from jobforge.redact.registry import can_be_hidden
from jobforge.redact.scope import (
    APP_SECRETS,
    CURRENT_SCOPE,
    JOB_SECRETS,
    MARKER,
    NO_SECRETS,
    OPERATOR_SECRETS,
    RedactionScope,
    connector_scope,
    current_scope,
    job_scope,
    log_scope,
)
from jobforge.redact.shapes import hide_pem_end, hide_private_keys, hide_shapes

__all__ = [
    "CURRENT_SCOPE",
    "MARKER",
    "NOT_HIDDEN_WARNING",
    "NO_SECRETS",
    "RedactionScope",
    "can_be_hidden",
    "connector_scope",
    "hide_values",
    "is_secret_name",
    "job_scope",
    "log_scope",
    "mask",
    "mask_text",
    "redact",
    "redact_head",
    "redact_tail",
    "redact_text",
    "register_job_secret",
    "register_operator_secret",
    "register_secret",
]

# Reason for a warning about a value that was not registered.
NOT_HIDDEN_WARNING = (
    "not redacted in output: a secret must have at least 8 characters, or 12 if it is a"
    " single word of letters"
)

_DEEPEST = 100
_LONGEST_AT_CUT = 4096
_LONGEST_REMEMBERED = 100
# Larger integers under `tokens` or `keys` may be secrets; smaller ones are counts.
_MOST_COUNTED = 10_000
# Module constants, because this is a hot path, and a union type is rebuilt on each evaluation.
_PLAIN = (bool, UUID, datetime, date, time)
_NUMBERS = (int, float, Decimal)
_CONTAINERS = (dict, list, tuple, set, frozenset, Mapping)
_MAPPINGS = (dict, Mapping)
# IDs, numbers and times: these characters cannot form a secret's name or shape.
_FIGURES = re.compile(r"[0-9a-f.:-]*")
_HALF = "\N{REPLACEMENT CHARACTER}"  # the rest of a multibyte character that was cut


def register_secret(value: str) -> bool:
    """Hide this value from now on: within a job, in the job's output; elsewhere, in all jobs.

    Return False for a value that cannot be hidden: one of less than 8 characters, or a single word
    of letters of less than 12.
    """
    scope = CURRENT_SCOPE.get()
    return APP_SECRETS.add(value) if scope is None else scope.add(value)


def register_operator_secret(value: str) -> bool:
    """Hide a secret of the installation in logs, permanently."""
    return OPERATOR_SECRETS.add(value)


def register_job_secret(value: str) -> bool:
    """Hide a secret that a job received in logs; the job's own scope hides it in its output."""
    return JOB_SECRETS.add(value)


def redact(value: Json, scope: RedactionScope | None = None) -> Json:
    """Return the value with all secrets hidden; values that JSON lacks become strings.

    Default scope: the current job's secrets or, outside a job, the app's. In field names, only
    recognizable forms of secrets are hidden.
    """
    return _redact_value(value, current_scope() if scope is None else scope, 0)


def mask(value: Json) -> Json:
    """Return the value for display to tenants: hides secrets by name and form only.

    Stored values were redacted before. Comparing them again, with secrets that this process
    happens to know, would let a tenant test guesses.
    """
    return _redact_value(value, NO_SECRETS, 0)


def mask_text(text: str) -> str:
    """Return the text for display to tenants, like `mask`."""
    return redact_text(text, NO_SECRETS)


def redact_text(text: str, scope: RedactionScope | None = None) -> str:
    """Return the text with all secrets hidden."""
    hidden = (current_scope() if scope is None else scope).hide(text)
    return (
        _hide_recognizable(hidden)
        if len(hidden) > _LONGEST_REMEMBERED
        else _hide_recognizable_cached(hidden)
    )


def hide_values(value: Json, scope: RedactionScope) -> Json:
    """Return a JSON value with the scope's registered secrets hidden in its strings.

    Field names are unchanged. A number that equals a secret is replaced by the marker.
    """
    if isinstance(value, str):
        return scope.hide(value)
    if isinstance(value, dict):
        return {name: hide_values(member, scope) for name, member in value.items()}
    if isinstance(value, list):
        return [hide_values(element, scope) for element in value]
    if value is None or isinstance(value, bool):
        return value
    return MARKER if scope.is_secret(str(value)) else value


def redact_tail(text: str, scope: RedactionScope | None = None, *, is_cut: bool) -> str:
    """Return the end of an output with all secrets hidden, including a secret that was cut.

    `is_cut`: output before the text was discarded. The incomplete first line is then omitted, up to
    4,096 characters, and so is the rest of a registered value or private key of several lines.
    """
    scope = current_scope() if scope is None else scope
    if not is_cut:
        return redact_text(text, scope)
    whole = hide_pem_end(scope.strip_cut_value(text.lstrip(_HALF)), MARKER)
    redacted = redact_text(whole, scope)
    line_end = redacted.find("\n", 0, _LONGEST_AT_CUT)
    return redacted[line_end + 1 if line_end >= 0 else _LONGEST_AT_CUT :]


def redact_head(text: str, scope: RedactionScope | None = None, *, is_cut: bool) -> str:
    """Return the start of a text with all secrets hidden, including a secret that was cut.

    `is_cut`: text after it was discarded. The last 4,096 characters are then omitted.
    """
    redacted = redact_text(text, scope)
    return redacted[:-_LONGEST_AT_CUT] if is_cut else redacted


def _hide_recognizable(text: str) -> str:
    """Hide secrets that are recognizable by name or form."""
    if _FIGURES.fullmatch(text):
        return text
    # Private keys first: their lines and special characters would end other patterns early.
    return hide_shapes(hide_assignments(hide_private_keys(text, MARKER), MARKER), MARKER)


@lru_cache(maxsize=4096)
def _hide_recognizable_cached(text: str) -> str:
    """Cached variant, because short texts repeat: states, queues, routes, actors."""
    return _hide_recognizable(text)


def _redact_value(value: Json, scope: RedactionScope, depth: int) -> Json:
    if type(value) is str:
        return redact_text(value, scope)
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, _NUMBERS):
        return _redact_number(value, scope)
    if isinstance(value, _CONTAINERS):
        return _redact_container(value, scope, depth) if depth < _DEEPEST else MARKER
    return redact_text(_text(value), scope)


def _redact_container(value: Json, scope: RedactionScope, depth: int) -> Json:
    if isinstance(value, _MAPPINGS):
        return _redact_mapping(value, scope, depth)
    return [_redact_element(element, scope, depth + 1) for element in value]


def _redact_mapping(
    value: Mapping[Json, Json], scope: RedactionScope, depth: int
) -> dict[str, Json]:
    is_named = _secret_is_named(value)
    redacted = {}
    for key, element in value.items():
        name, is_secret = _redact_name(key)
        if (is_secret or (is_named and key == "value")) and not _is_count(name, element):
            redacted[name] = _hide_value(element)
        else:
            redacted[name] = _redact_value(element, scope, depth + 1)
    return redacted


def _redact_name(key: Json) -> tuple[str, bool]:
    """Return the name for display, and whether its value is secret."""
    if type(key) is str and len(key) <= _LONGEST_REMEMBERED:
        return _redact_name_cached(key)
    name = _text(key)
    return _hide_recognizable(name), is_secret_name(name)


@lru_cache(maxsize=4096)
def _redact_name_cached(name: str) -> tuple[str, bool]:
    """Cached variant, because names repeat."""
    return _hide_recognizable(name), is_secret_name(name)


def _is_count(name: str, value: Json) -> bool:
    """Return whether a value is a count of secrets, as in `{"api_keys": 3}`."""
    return type(value) is int and 0 <= value < _MOST_COUNTED and name.lower().endswith("s")


def _redact_element(value: Json, scope: RedactionScope, depth: int) -> Json:
    """Redact an element of a list; a pair may be a name and its value, as in headers."""
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str | bytes):
        name = _text(value[0])
        if is_secret_name(name):
            return [redact_text(name, scope), _hide_value(value[1])]
    return _redact_value(value, scope, depth)


def _secret_is_named(value: Mapping[Json, Json]) -> bool:
    """Return whether an object names a secret: `{"name": "Authorization", "value": …}`."""
    if "value" not in value:
        return False
    names = (value.get("name"), value.get("key"))
    return any(isinstance(name, str) and is_secret_name(name) for name in names)


def _hide_value(value: Json) -> Json:
    """Hide a value under a secret name, except null, booleans and the empty string."""
    return value if value is None or isinstance(value, bool) or value == "" else MARKER


def _redact_number(value: float | Decimal, scope: RedactionScope) -> Json:
    text = _text(value)
    if scope.is_secret(text):
        return MARKER
    return value if not isinstance(value, Decimal) else text


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    try:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).decode("utf-8", "backslashreplace")
        return str(value)
    except Exception:  # noqa: BLE001 - __str__ of a foreign object may raise; logging must not
        return f"<{type(value).__name__}>"
