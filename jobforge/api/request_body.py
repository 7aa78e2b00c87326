"""Bodies of requests: bounded in size, and JSON in the strict sense, before anything reads them.

Python's parser takes NaN, keeps the last of two members of one name, and reads what Postgres cannot
store. Each of these is refused here under a code of its own.

Large bodies are parsed in a thread, so that other requests are answered in the meantime.
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
    LoneSurrogate,
    NulCharacter,
    NumberNotFinite,
    NumberTooLong,
    PayloadTooLarge,
    TooDeep,
    WrongMediaType,
)

_MAX_DEPTH = 70  # the 64 levels of a payload, and what stands around it
LARGE_BYTES = 65_536  # bytes; parsing fewer takes less time than another thread does to start
_PARSERS = ThreadPoolExecutor(2, thread_name_prefix="body")
# Python's scanner in C keeps the interpreter's lock while it reads arrays of arrays or strings.
_MANY_ARRAYS = 50_000
_MEDIA_TYPE = re.compile(r"application/(?:[a-z0-9.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
# One that does not end goes on to the end: else each quote in it would be tried as a beginning.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b'[]{}"\\'))


class ParsedBody(NamedTuple):
    """As it came, and parsed; without a body, nothing and None."""

    raw: bytes
    value: Json


class JsonRequest(Request):
    """A request whose body was read already."""

    def __init__(self, request: Request, body: ParsedBody) -> None:
        super().__init__(request.scope, request.receive)
        self._parsed_body = body

    async def body(self) -> bytes:
        return self._parsed_body.raw

    async def json(self) -> Any:  # noqa: ANN401 - as Starlette has it
        return self._parsed_body.value


async def read(request: Request, limit: int) -> ParsedBody:
    raw = await _read_bytes(request, limit)
    if not raw:
        return ParsedBody(raw, None)
    headers = request.headers
    if "content-encoding" in headers and headers["content-encoding"] != "identity":
        raise WrongMediaType("compressed bodies are not taken")
    if _MEDIA_TYPE.fullmatch(headers.get("content-type", "")) is None:
        raise WrongMediaType
    if len(raw) <= LARGE_BYTES:
        return ParsedBody(raw, parse(raw))
    return ParsedBody(raw, await asyncio.get_running_loop().run_in_executor(_PARSERS, parse, raw))


def parse(raw: bytes) -> Json:
    """Raises BadBody or one of its kind."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadBody("the body is not UTF-8") from error
    is_nested = raw.count(b"[") + raw.count(b"{") > _MAX_DEPTH
    has_escapes = "\0" in text or "\\u" in text
    if len(raw) > LARGE_BYTES:
        with _pause_gc():
            decoder = _INTERRUPTIBLE if raw.count(b"[") > _MANY_ARRAYS else _DECODER
            value = _decode(decoder, text)
            if is_nested or has_escapes:
                _check_tree(value)
        return value
    if is_nested and _depth(raw) > _MAX_DEPTH:
        raise _too_deep()
    value = _decode(_DECODER, text)
    if has_escapes:
        _check_tree(value)
    return value


def _decode(decoder: json.JSONDecoder, text: str) -> Json:
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadBody(f"the body is not JSON: {error.msg.lower()} ({where})") from error
    except ValueError as error:  # Python reads 4,300 digits at most
        raise NumberTooLong from error
    except RecursionError as error:
        raise _too_deep() from error


async def _read_bytes(request: Request, limit: int) -> bytes:
    told = request.headers.get("content-length", "0")
    if told.isdigit() and int(told) > limit:
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
    return PayloadTooLarge(f"the body has more than {limit:,} bytes", detail={"limit": limit})


def _depth(raw: bytes) -> int:
    """Levels of nesting, by taking away the innermost brackets until none are left."""
    bare = raw.translate(None, _NO_BRACKETS)
    if b"\\" in bare or b'"' in bare.replace(b'""', b""):
        bare = _STRING.sub(b"", raw).translate(None, _NO_BRACKETS)
    brackets = bare.replace(b'"', b"").translate(_BRACKETS)
    depth = 0
    while brackets and depth <= _MAX_DEPTH:
        inner = brackets.replace(b"[]", b"")
        if len(inner) == len(brackets):
            return depth  # they do not match; the parser will say so
        brackets = inner
        depth += 1
    return depth


def _check_tree(value: Json, depth: int = 0) -> None:
    """Check levels and characters in one pass."""
    if isinstance(value, str):
        if "\0" in value:
            raise NulCharacter
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise LoneSurrogate
    elif isinstance(value, dict | list):
        if depth == _MAX_DEPTH:
            raise _too_deep()
        if isinstance(value, dict):
            for name in value:
                _check_tree(name)
        for each in value.values() if isinstance(value, dict) else value:
            if isinstance(each, str | dict | list):
                _check_tree(each, depth + 1)


def _too_deep() -> TooDeep:
    return TooDeep(f"the body has more than {_MAX_DEPTH} levels")


_gc_lock = threading.Lock()
_active_parses = 0


@contextmanager
def _pause_gc() -> Iterator[None]:
    """Millions of new values would make the garbage collector look at them again and again, and
    nothing else runs in that time. None of them is garbage."""
    global _active_parses  # noqa: PLW0603 - the collector is the process's own, too
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
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise DuplicateMember(f"the member {twice[:100]!r} is there twice")
    return members


def _refuse_constant(word: str) -> NoReturn:
    raise NumberNotFinite(f"{word} is no JSON")


def _float(digits: str) -> float:
    value = float(digits)
    if value in {float("inf"), float("-inf")}:
        raise NumberTooLong("the body holds a number that is too large")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_refuse_constant,
    parse_float=_float,
)


class _InterruptibleDecoder(json.JSONDecoder):
    """The same in Python, slower: other threads run in between."""

    def __init__(self) -> None:
        super().__init__(
            object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_float
        )
        self.scan_once = py_make_scanner(self)


_INTERRUPTIBLE = _InterruptibleDecoder()
