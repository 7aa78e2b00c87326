"""JSON for jsonb columns: encoding and decoding with orjson, without losing information.

orjson alone would write NaN as null and read a long integer as a float. Values that jsonb or orjson
cannot represent are rejected here, before anything is sent.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import NamedTuple

import orjson

from jobforge.errors import Invalid, Json

# orjson reads integers of 20 or more digits as floats.
_LONG_NUMBER = re.compile(rb"\d{19}")
_MOST_DIGITS_OF_INT = 4300  # Python's limit for parsing an int
_DEEPEST = 64  # the engine's limit
_DEEPEST_OF_ORJSON = 254


@dataclass(frozen=True, slots=True)
class JsonFields:
    """Base of dataclasses that the engine takes as JSON objects, such as filters and options."""

    def to_json(self) -> dict[str, Json]:
        """Return the fields that are not None."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {
            name: value.to_json() if hasattr(value, "to_json") else value
            for name, value in values
            if value is not None
        }


def encode(value: Json, field: str) -> str:
    """Return the value as JSON that jsonb can store; otherwise raise Invalid with the path."""
    try:
        # Reject dataclasses: the check below would not find a NaN inside one.
        text = orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError as error:
        for fault in _faults(value, "$"):
            raise _refusal(field, fault) from error
        raise Invalid(f"{field} cannot be written as JSON: {error}", field=field) from error
    # NaN and infinity are written as null, so only such output needs the check.
    if b"null" in text or b"\\u0000" in text:
        for fault in _faults(value, "$"):
            raise _refusal(field, fault)
    return text.decode()


def decode(text: str | bytes) -> Json:
    """Decode JSON; integers of any length stay exact."""
    if isinstance(text, str):
        text = text.encode()
    if _LONG_NUMBER.search(text):
        return json.loads(text, parse_int=_parse_integer)
    return orjson.loads(text)


def replace_unencodable(value: Json, depth: int = 0) -> Json:
    """Replace what jsonb cannot store by descriptions: for messages, not for results."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
    if isinstance(value, dict) and depth < _DEEPEST:
        return {
            replace_unencodable(str(name)): replace_unencodable(inner, depth + 1)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return [replace_unencodable(inner, depth + 1) for inner in value]
    return value if _is_plain(value) else f"<{type(value).__name__}>"


def _is_plain(value: Json) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return value is None or (isinstance(value, float) and math.isfinite(value))


class _Fault(NamedTuple):
    """A value that jsonb cannot store, or that is too long as JSON."""

    what: str
    path: str
    hint: str


_AS_STRING = "Send the number as a string"
_WITHOUT_NUL = "Remove the character, or send the bytes as base64"


def _refusal(field: str, fault: _Fault) -> Invalid:
    return Invalid(
        f"{field} contains {fault.what} at {fault.path}, which cannot be stored",
        field=field,
        detail={"path": fault.path},
        hint=fault.hint,
    )


def _faults(value: Json, path: str, depth: int = 0) -> Iterator[_Fault]:
    if depth > _DEEPEST_OF_ORJSON:  # including a value that contains itself
        return
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _faults(name, path)
            yield from _faults(inner, f"{path}.{str(name)[:100]}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _faults(inner, f"{path}[{index}]", depth + 1)
    elif isinstance(value, str):
        if "\0" in value:
            yield _Fault("the NUL character", path, _WITHOUT_NUL)
    elif isinstance(value, int | float | Decimal) and not _is_plain(value):
        yield _Fault(_describe_number(value), path, _AS_STRING)


def _describe_number(number: Json) -> str:
    if isinstance(number, float):
        return f"the number {number}"
    return "a Decimal" if isinstance(number, Decimal) else "an integer of more than 64 bits"


def _parse_integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _MOST_DIGITS_OF_INT else Decimal(digits)
