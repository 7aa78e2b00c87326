"""Matches events to triggers: by a name or prefix, and by a filter on the event's content.

A filter is a list of {"path", "op", "value"}, all of which must hold. Paths have the syntax of
templates. Types are compared strictly: "1" is not 1, and true is not 1. A path without a value
fails every condition except {"op": "exists", "value": false}.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jobforge.errors import Invalid, Json
from jobforge.scheduler.template import MISSING, Path, look_up, read_path
from jobforge.types import jsonb

ROOTS = ("event", "meta")
MOST_CONDITIONS = 50
MOST_CHOICES = 100
MOST_BYTES = 64 * 1024  # per filter

# The syntax that emit_event accepts.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")


@dataclass(frozen=True, slots=True)
class Condition:
    """One parsed condition of a filter."""

    path: Path
    op: str
    value: Json

    def holds(self, values: Mapping[str, Json]) -> bool:
        found = look_up(self.path, values)
        if self.op == "exists":
            return (found is not MISSING) is self.value
        return found is not MISSING and _OPERATORS[self.op](found, self.value)


def check_pattern(pattern: Json, *, field: str = "event") -> str:
    """Return the pattern: a name (`order.paid`), a prefix (`order.*`) or `*`; raise Invalid."""
    is_text = isinstance(pattern, str)
    if is_text and (pattern == "*" or _NAME.fullmatch(pattern.removesuffix(".*"))):
        return str(pattern)
    raise Invalid(
        f"{field} must be a name such as order.paid, a prefix such as order.*, or *",
        field=field,
    )


def matches_pattern(pattern: str, name: str) -> bool:
    """Whether the pattern of a trigger matches this event name."""
    return pattern in {name, "*"} or (pattern.endswith(".*") and name.startswith(pattern[:-1]))


def parse(conditions: Json, *, field: str = "filter") -> tuple[Condition, ...]:
    """Parse a filter; raise Invalid with the path of the first fault."""
    if conditions is None:
        return ()
    if not isinstance(conditions, list) or len(conditions) > MOST_CONDITIONS:
        raise Invalid(
            f"{field} must be a list of at most {MOST_CONDITIONS} conditions", field=field
        )
    return tuple(_condition(item, f"{field}.{n}") for n, item in enumerate(conditions))


def check(conditions: Json, *, field: str = "filter") -> None:
    """Validate a filter before it is saved; raise Invalid."""
    parse(conditions, field=field)
    if len(jsonb.encode(conditions, field).encode()) > MOST_BYTES:
        raise Invalid(f"{field} is larger than {MOST_BYTES // 1024} KiB", field=field)


def matches(conditions: tuple[Condition, ...], values: Mapping[str, Json]) -> bool:
    """Whether all conditions of the filter hold."""
    return all(condition.holds(values) for condition in conditions)


def _condition(item: Json, at: str) -> Condition:
    if not isinstance(item, dict) or not {"path", "op"} <= item.keys() <= {"path", "op", "value"}:
        raise Invalid(f"{at} must have path, op and value, and no other members", field=at)
    path, op, value = item["path"], item["op"], item.get("value", MISSING)
    if not isinstance(path, str):
        raise Invalid(f"{at}.path must be a string", field=f"{at}.path")
    if not isinstance(op, str) or op not in _OPERAND_RULES:
        raise Invalid(f"{at}.op must be one of {', '.join(_OPERAND_RULES)}", field=f"{at}.op")
    if op == "exists" and value is MISSING:
        value = True
    expected, is_valid = _OPERAND_RULES[op]
    if value is MISSING or not is_valid(value):
        raise Invalid(f"{at}.value must be {expected} for {op}", field=f"{at}.value")
    return Condition(read_path(path, field=f"{at}.path", roots=ROOTS), op, value)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_ordered(value: Json) -> bool:
    return _is_number(value) or isinstance(value, str)


def _is_choice(value: Json) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= MOST_CHOICES


# The operand that each operator requires: a description for errors, and a predicate.
_OPERAND_RULES: Mapping[str, tuple[str, Callable[[Json], bool]]] = {
    "eq": ("a JSON value", lambda _: True),
    "ne": ("a JSON value", lambda _: True),
    "in": (f"a list of 1 to {MOST_CHOICES} values", _is_choice),
    "exists": ("true or false", lambda value: isinstance(value, bool)),
    "prefix": ("a string", lambda value: isinstance(value, str)),
    "gt": ("a number or string", _is_ordered),
    "lt": ("a number or string", _is_ordered),
}


def _is_same(left: Json, right: Json) -> bool:
    # In Python, True == 1; in JSON they differ.
    if _is_number(left) and _is_number(right):
        return bool(left == right)
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(
            _is_same(left[name], right[name]) for name in left
        )
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return bool(left == right)


def _is_comparable(left: Json, right: Json) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return True
    return _is_number(left) and _is_number(right)


_OPERATORS: Mapping[str, Callable[[Json, Json], bool]] = {
    "eq": _is_same,
    "ne": lambda found, value: not _is_same(found, value),
    "in": lambda found, value: any(_is_same(found, choice) for choice in value),
    "prefix": lambda found, value: isinstance(found, str) and found.startswith(value),
    "gt": lambda found, value: _is_comparable(found, value) and found > value,
    "lt": lambda found, value: _is_comparable(found, value) and found < value,
}
