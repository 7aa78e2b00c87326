"""The parameters of a call as members of a request.

A route names them in the order in which the SQL function takes them:

    name        a value; left out when it is None
    name!       also when it is None
    name:json   a text of JSON, sent as what it says
    *name       a text of JSON, whose members are sent each by itself
    cursor      the key of the last row of a page
    tenant_id   whose it is: it goes into a header
    -           nothing that the server takes
"""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from jobforge.errors import Invalid, Json
from jobforge.types.jsonb import decode

# A route whose parameters are not sent one by one has a function for them.
ParameterSpec = str | Callable[[Sequence[Any]], Mapping[str, Json]]
TENANT = "tenant_id"


class RawJson(str):
    """JSON already."""

    __slots__ = ()


def name_parameters(arguments: ParameterSpec, parameters: Sequence[Any]) -> dict[str, Json]:
    """What is to be sent, by name; Invalid when a name comes twice."""
    if callable(arguments):
        return dict(arguments(parameters))
    found: dict[str, Json] = {}
    for word, given in zip(arguments.split(), parameters, strict=True):
        for name, value in _member(word, given):
            if name in found:  # it would say which job it is about, and that was said
                raise Invalid(f"{name} cannot be set", field=name)
            found[name] = value
    return found


def encode_body(given: Mapping[str, Json]) -> bytes:
    """The body of a request. JSON stays the text that it is, so numbers stay exact."""
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
