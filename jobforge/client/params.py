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
    members: dict[str, Json] = {}
    for spec, parameter in zip(arguments.split(), parameters, strict=True):
        for name, value in _member(spec, parameter):
            if name in members:  # a member of `*name` must not replace a path parameter
                raise Invalid(f"{name} cannot be set", field=name)
            members[name] = value
    return members


def encode_body(members: Mapping[str, Json]) -> bytes:
    """Return the JSON body. RawJson is inserted as it is, so that numbers stay exact."""
    inner = (f"{_text(name)}:{_text(value)}" for name, value in members.items())
    return f"{{{','.join(inner)}}}".encode()


def query(members: Mapping[str, Json]) -> list[tuple[str, str]]:
    return [
        (name, _format_query_value(each))
        for name, value in members.items()
        for each in _as_sequence(value)
    ]


def _member(spec: str, value: Json) -> Iterator[tuple[str, Json]]:
    name = spec.strip("*!").removesuffix(":json")
    if spec == "-" or (value is None and not spec.endswith("!")):
        return
    if spec == "cursor":
        yield name, _cursor(value)
    elif spec.startswith("*"):
        yield from decode(value).items()
    else:
        yield name, RawJson(value) if spec.endswith(":json") else value


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
