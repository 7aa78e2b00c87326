"""A request to a server, as a value, and the encoding of its members."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

import orjson

from jobforge.calls.call import JsonArgument
from jobforge.errors import Json

T_co = TypeVar("T_co", covariant=True)

TENANT_HEADER = "X-JobForge-Tenant"
IDEMPOTENCY_KEY_HEADER = "Idempotency-Key"


@dataclass(frozen=True, slots=True)
class ApiRequest(Generic[T_co]):
    """`read` converts the response's JSON to the result.

    `is_repeatable`: safe to retry when the response is lost.
    """

    method: str
    path: str
    read: Callable[[Json], T_co]
    query: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = False


def encode_body(members: Mapping[str, Json]) -> bytes:
    """Return the JSON body. Arguments that are already JSON are inserted as they are."""
    inner = (f"{_text(name)}:{_text(value)}" for name, value in members.items())
    return f"{{{','.join(inner)}}}".encode()


def encode_query(members: Mapping[str, Json]) -> list[tuple[str, str]]:
    return [
        (name, _format_query_value(each))
        for name, value in members.items()
        for each in _as_sequence(value)
    ]


def _text(value: Json) -> str:
    return value if isinstance(value, JsonArgument) else orjson.dumps(value).decode()


def _as_sequence(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list | tuple) else [value]


def _format_query_value(value: Json) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)
