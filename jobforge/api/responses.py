"""Answers as JSON: orjson, times in UTC, tuples with names as objects."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.responses import Response

from jobforge.api import exact

_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


class Answer(Response):
    """A body of JSON; nothing at all for 204."""

    media_type = "application/json"

    def __init__(
        self, value: object = None, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(b"" if status == 204 else encode(value), status, headers)


def encode(value: object) -> bytes:
    try:
        return _encode(value)
    except TypeError:  # an integer that is longer than 64 bits
        return exact.written(value, _encode)


def _encode(value: object) -> bytes:
    return orjson.dumps(value, default=_plain, option=_OPTIONS)


def _plain(value: Any) -> object:  # noqa: ANN401 - whatever orjson does not know
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, str):  # members of enumerations
        return str(value)
    if isinstance(value, tuple):
        return value._asdict() if hasattr(value, "_asdict") else list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
