"""JSON responses: encoded by orjson, times in UTC, named tuples as objects.

orjson encodes integers of up to 64 bits. A payload enqueued by SQL may have longer ones, and a
claim response that cannot be encoded would cost its jobs an attempt: `encode_exact` encodes them.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import orjson
from starlette.responses import Response

_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


class JsonResponse(Response):
    """JSON response; its body is empty for status 204."""

    media_type = "application/json"

    def __init__(
        self, value: object = None, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(b"" if status == 204 else encode(value), status, headers)


def encode(value: object) -> bytes:
    try:
        return _encode(value)
    except TypeError:  # an integer of more than 64 bits
        return encode_exact(value, _encode)


def _encode(value: object) -> bytes:
    return orjson.dumps(value, default=_to_plain, option=_OPTIONS)


def _to_plain(value: Any) -> object:  # noqa: ANN401 - any type that orjson does not support
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, str):  # StrEnum members
        return str(value)
    if isinstance(value, tuple):
        return value._asdict() if hasattr(value, "_asdict") else list(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


LeafEncoder = Callable[[object], bytes]


def encode_exact(value: object, leaf: LeafEncoder) -> bytes:
    """Encode containers and numbers here and all other values with `leaf`."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return format(Decimal(value), "f").encode()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        value = {name: getattr(value, name) for name in names}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        members = (
            json.dumps(str(name)).encode() + b":" + encode_exact(inner, leaf)
            for name, inner in value.items()
        )
        return b"{" + b",".join(members) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(encode_exact(inner, leaf) for inner in value) + b"]"
    return leaf(value)
