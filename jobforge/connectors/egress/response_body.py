"""Reads a response's body in chunks up to a limit, compressed or not."""

import asyncio
import zlib
from collections.abc import AsyncIterator

import httpcore2

from jobforge.errors import BadResponse, ResponseTooLarge

# Values of zlib's wbits: 16 + 15 for gzip, 32 + 15 to detect gzip or zlib by the header.
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 47}
_GLIMPSE_S = 5.0
_UNREADABLE = (BadResponse, ResponseTooLarge, httpcore2.NetworkError, httpcore2.ProtocolError)


async def read_body(response: httpcore2.Response, *, limit: int) -> bytes:
    """Return the body. Raises ResponseTooLarge if it exceeds the limit, compressed or not."""
    _refuse_content_length(response, limit)
    return b"".join([piece async for piece in _pieces(response, limit)])


async def read_body_prefix(response: httpcore2.Response, *, limit: int) -> bytes:
    """Return the part of the body that arrives soon and can be decoded; never raise.

    For callers that need only the status.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(_GLIMPSE_S):
            async for piece in _pieces(response, limit):
                body += piece
    except (*_UNREADABLE, OSError):
        pass
    return bytes(body)


async def _pieces(response: httpcore2.Response, limit: int) -> AsyncIterator[bytes]:
    encodings = _encodings(response)
    if len(encodings) > 1 or not _WINDOWS.keys() >= set(encodings):
        raise BadResponse("The response has an unsupported compression")
    unpacked = _Decompressor(_WINDOWS[encodings[0]], limit) if encodings else None
    received = unpacked_bytes = 0
    async for chunk in response.aiter_stream():
        received += len(chunk)
        piece = unpacked.feed(chunk) if unpacked else chunk
        unpacked_bytes += len(piece)
        if received > limit or unpacked_bytes > limit:
            raise _too_large(limit)
        yield piece
    if unpacked is not None:
        unpacked.end(received)


class _Decompressor:
    def __init__(self, window: int, limit: int) -> None:
        self._zlib = zlib.decompressobj(window)
        self._left = limit

    def feed(self, chunk: bytes) -> bytes:
        try:
            # One byte above the limit shows that there is more.
            plain = self._zlib.decompress(chunk, self._left + 1)
        except zlib.error:
            raise BadResponse("The response cannot be decompressed") from None
        self._left = max(self._left - len(plain), 0)
        return plain

    def end(self, received: int) -> None:
        if received and not self._zlib.eof:
            raise BadResponse("The compressed response is incomplete")


def _encodings(response: httpcore2.Response) -> list[str]:
    found = [
        value.decode("latin-1")
        for name, value in response.headers
        if name.lower() == b"content-encoding"
    ]
    encodings = [encoding.strip().lower() for encoding in ",".join(found).split(",")]
    return [encoding for encoding in encodings if encoding not in {"", "identity"}]


def _refuse_content_length(response: httpcore2.Response, limit: int) -> None:
    for name, value in response.headers:
        if name.lower() == b"content-length" and value.isdigit() and int(value) > limit:
            raise _too_large(limit)


def _too_large(limit: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"The response is larger than {limit:,} bytes")
