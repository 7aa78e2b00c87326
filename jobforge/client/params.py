"""Maps the parameters of a call to members of an HTTP request.

A route names them in the order of the SQL function's arguments:

    name        a value; omitted if None
    name!       a value; sent even if None
    name:json   a JSON string, sent as the value that it encodes
    *name       a JSON object as a string, whose members are sent separately
    cursor      the key of the last row of a page
    tenant_id   the tenant, sent as a header
    -           a parameter that the server does not take
"""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from jobforge.errors import Invalid, Json
from jobforge.types.jsonb import decode

# A function instead of a string, if the request's members differ from the call's parameters.
ParameterSpec = str | Callable[[Sequence[Any]], Mapping[str, Json]]
TENANT = "tenant_id"


class RawJson(str):
    """A string that is already JSON."""

    __slots__ = ()


def name_parameters(arguments: ParameterSpec, parameters: Sequence[Any]) -> dict[str, Json]:
    """Return the request's members by name. Raises Invalid for a duplicate name."""
    if callable(arguments):
        return dict(arguments(parameters))
    found: dict[str, Json] = {}
    for word, given in zip(arguments.split(), parameters, strict=True):
        for name, value in _member(word, given):
            if name in found:  # a member of `*name` must not replace a path parameter
                raise Invalid(f"{name} cannot be set", field=name)
            found[name] = value
    return found


def encode_body(given: Mapping[str, Json]) -> bytes:
    """Return the JSON body. RawJson is inserted as it is, so that numbers stay exact."""
    inner = (f"{_text(name)}:{_text(value)}" for name, value in given.items())
    return f"{{{','.join(inner)}}}".encode()


def query(given: Mapping[str, Json]) -> list[tuple[str, str]]:
    return [
        (name, _format_query_value(each))
        for name, value in given.items()
        for each in _as_sequence(value)
    ]


def _member(word: str, given: Json) -> Iterator[tuple[str, Json]]:
    name = word.strip("*!").removesuffix(":json")
    if word == "-" or (given is None and not word.endswith("!")):
        return
    if word == "cursor":
        yield name, _cursor(given)
    elif word.startswith("*"):
        yield from decode(given).items()
    else:
        yield name, RawJson(given) if word.endswith(":json") else given


def _cursor(last: object) -> str:
    key = last.isoformat() if isinstance(last, datetime) else str(last)
    return base64.urlsafe_b64encode(key.encode()).rstrip(b"=").decode()


def _text(value: Json) -> str:
    return value if isinstance(value, RawJson) else orjson.dumps(value).decode()


def _as_sequence(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list | tuple) else [value]


def _format_query_value(value: Json) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)
