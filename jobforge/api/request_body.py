"""Request bodies: limits their size and parses them as strict JSON.

Python's parser accepts NaN, keeps the last of two members with the same name, and accepts strings
that Postgres cannot store. This module rejects all of them.

Large bodies are parsed in a thread, so the server keeps responding to other requests.
"""

import asyncio
import gc
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from json.scanner import py_make_scanner  # type: ignore[attr-defined]  # typeshed lacks it
from typing import Any, NamedTuple, NoReturn

from starlette.requests import ClientDisconnect, Request

from jobforge.errors import (
    BadBody,
    DuplicateMember,
    Json,
    NulCharacter,
    NumberTooLong,
    PayloadTooLarge,
    TooDeep,
    WrongMediaType,
)

_MAX_DEPTH = 70  # the 64 levels of a payload plus the levels of the body around it
LARGE_BYTES = 65_536  # bytes; parsing fewer is faster than handing over to a thread
_PARSERS = ThreadPoolExecutor(2, thread_name_prefix="body")
# Python's scanner in C holds the GIL while it reads arrays of arrays or strings.
_MANY_ARRAYS = 50_000
_MEDIA_TYPE = re.compile(r"application/(?:[a-z0-9.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)


class ParsedBody(NamedTuple):
    """Body as received and as parsed; b"" and None for an empty body."""

    raw: bytes
    value: Json


class JsonRequest(Request):
    """Request whose body has already been read and parsed."""

    def __init__(self, request: Request, body: ParsedBody) -> None:
        super().__init__(request.scope, request.receive)
        self._parsed_body = body

    async def body(self) -> bytes:
        return self._parsed_body.raw

    async def json(self) -> Any:  # noqa: ANN401 - Starlette's signature
        return self._parsed_body.value


async def read(request: Request, limit: int) -> ParsedBody:
    raw = await _read_bytes(request, limit)
    if not raw:
        return ParsedBody(raw, None)
    headers = request.headers
    if "content-encoding" in headers and headers["content-encoding"] != "identity":
        raise WrongMediaType("The request body must not be compressed")
    if _MEDIA_TYPE.fullmatch(headers.get("content-type", "")) is None:
        raise WrongMediaType
    if len(raw) <= LARGE_BYTES:
        return ParsedBody(raw, parse(raw))
    return ParsedBody(raw, await asyncio.get_running_loop().run_in_executor(_PARSERS, parse, raw))


def parse(raw: bytes) -> Json:
    """Parse strict JSON; raise BadBody or a subclass."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadBody("The request body is not UTF-8") from error
    if len(raw) <= LARGE_BYTES:
        return _decode(_DECODER, raw, text)
    with _pause_gc():
        decoder = _INTERRUPTIBLE if raw.count(b"[") > _MANY_ARRAYS else _DECODER
        return _decode(decoder, raw, text)


def _decode(decoder: json.JSONDecoder, raw: bytes, text: str) -> Json:
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadBody(
            f"The request body is not valid JSON: {error.msg.lower()} ({where})"
        ) from error
    except ValueError as error:  # Python converts integers of at most 4,300 digits
        raise NumberTooLong from error
    except RecursionError as error:
        raise _too_deep() from error
    if "\0" in text or "\\u" in text:
        _check_values([value], (str, dict, list))
    elif raw.count(b"[") + raw.count(b"{") > _MAX_DEPTH:
        _check_values([value], (dict, list))
    return value


async def _read_bytes(request: Request, limit: int) -> bytes:
    content_length = request.headers.get("content-length", "0")
    if content_length.isdigit() and int(content_length) > limit:
        raise _too_large(limit)
    chunks, size, is_more = [], 0, True
    while is_more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        is_more = message.get("more_body", False)
    return b"".join(chunks)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The request body is larger than {limit:,} bytes", detail={"limit": limit}
    )


def _check_values(level: list[Json], kinds: tuple[type, ...]) -> None:
    """Check nesting depth and, with str among the kinds, the characters of names and strings."""
    depth = 0
    while level:
        inner: list[Json] = []
        for each in level:
            if isinstance(each, str):
                _check_characters(each)
                continue
            if depth == _MAX_DEPTH:
                raise _too_deep()
            if isinstance(each, dict):
                inner += each if str in kinds else ()
            members = each.values() if isinstance(each, dict) else each
            inner += [member for member in members if isinstance(member, kinds)]
        level = inner
        depth += 1


def _check_characters(text: str) -> None:
    if "\0" in text:
        raise NulCharacter
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadBody("The request body contains half of a surrogate pair")


def _too_deep() -> TooDeep:
    return TooDeep(f"The request body is nested more than {_MAX_DEPTH} levels deep")


_gc_lock = threading.Lock()
_active_parses = 0


@contextmanager
def _pause_gc() -> Iterator[None]:
    """Disable the garbage collector while large bodies are parsed.

    Millions of new values would trigger repeated collections, during which no other thread runs.
    None of the values is garbage.
    """
    global _active_parses  # noqa: PLW0603 - process-wide, like the garbage collector
    with _gc_lock:
        _active_parses += 1
        gc.disable()
    try:
        yield
    finally:
        with _gc_lock:
            _active_parses -= 1
            if not _active_parses:
                gc.enable()


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) < len(pairs):
        [(duplicate, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise DuplicateMember(f"Duplicate member {duplicate[:100]!r}")
    return members


def _refuse_constant(constant: str) -> NoReturn:
    raise BadBody(f"{constant} is not valid JSON; send null or a string")


def _float(digits: str) -> float:
    value = float(digits)
    if value in {float("inf"), float("-inf")}:
        raise NumberTooLong("The request body contains a number that is too large")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_refuse_constant,
    parse_float=_float,
)


class _InterruptibleDecoder(json.JSONDecoder):
    """The same decoder in pure Python: slower, but other threads run in between."""

    def __init__(self) -> None:
        super().__init__(
            object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_float
        )
        self.scan_once = py_make_scanner(self)


_INTERRUPTIBLE = _InterruptibleDecoder()
