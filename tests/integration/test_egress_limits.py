"""Responses that are slow, endless, huge or wrong fail with the error that names the reason."""

import asyncio
import gzip
import ssl
import zlib
from pathlib import Path
from typing import Any

import pytest
from integration.loopback_server import LoopbackServer, create_certificate, run_loopback_server

from jobforge.connectors.egress import EgressClient, EgressRequest, EgressResponse, Policy
from jobforge.connectors.egress.policy import parse_allow_entry
from jobforge.errors import (
    BadResponse,
    DeadlineExceeded,
    EgressError,
    ResponseTooLarge,
    TlsError,
    TooManyRedirects,
    Unreachable,
)

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
HEAD = b"HTTP/1.1 200 OK\r\n"


def client(server: LoopbackServer, **more: Any) -> EgressClient:
    allowed = parse_allow_entry(f"127.0.0.1:{server.port}")
    return EgressClient(Policy(allowed=(allowed,), allow_http=True), **more)


async def get(server: LoopbackServer, **more: Any) -> EgressResponse:
    return await client(server).send(EgressRequest("GET", f"{server.url}/path", **more))


def whole(body: bytes, headers: bytes = b"") -> bytes:
    length = b"content-length: %d\r\n" % len(body)
    return HEAD + headers + length + b"\r\n" + body


async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"\r\n")
    while not writer.is_closing():
        writer.write(b"x" * 65_536)
        await writer.drain()


async def endless_chunks(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        await writer.drain()


async def endless_head(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD)
    while not writer.is_closing():
        writer.write(b"x-more: " + b"y" * 1000 + b"\r\n")
        await writer.drain()


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def trickling(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"content-length: 1000000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def only_continuing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while not writer.is_closing():
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.001)


def bomb(pack: Any = gzip.compress) -> bytes:
    packed: bytes = pack(b"\0" * 50 * MIB)
    return packed


ANSWERS = [
    (silent, DeadlineExceeded),
    (trickling, DeadlineExceeded),
    (only_continuing, DeadlineExceeded),
    (endless, ResponseTooLarge),
    (endless_chunks, ResponseTooLarge),
    (HEAD + b"content-length: 10000000000\r\n\r\n", ResponseTooLarge),
    (whole(b"x" * (MIB + 1)), ResponseTooLarge),
    (whole(bomb(), b"content-encoding: gzip\r\n"), ResponseTooLarge),
    (whole(bomb(zlib.compress), b"content-encoding: deflate\r\n"), ResponseTooLarge),
    (whole(b"x", b"content-encoding: gzip, gzip\r\n"), BadResponse),
    (whole(b"x", b"content-encoding: br\r\n"), BadResponse),
    (whole(b"no gzip", b"content-encoding: gzip\r\n"), BadResponse),
    (
        whole(gzip.compress(b"cut" * 1000, mtime=0)[:-20], b"content-encoding: gzip\r\n"),
        BadResponse,
    ),
    (endless_head, BadResponse),
    (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", BadResponse),
    (b"", BadResponse),
    (HEAD + b"content-length: 100\r\n\r\nshort", BadResponse),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n12345", BadResponse),
]


@pytest.mark.attack("response bombs")
@pytest.mark.parametrize(("answer", "error"), ANSWERS, ids=range(len(ANSWERS)))
async def test_a_response_beyond_a_limit_fails_with_the_name_of_the_limit(
    answer: Any, error: type[EgressError]
) -> None:
    async with run_loopback_server(answer) as server:
        deadline_s = 0.3 if error is DeadlineExceeded else 30
        with pytest.raises(error) as ended:
            await get(server, deadline_s=deadline_s)
    assert type(ended.value) is error


async def test_a_response_at_the_limit_is_read_whole_and_unpacked() -> None:
    body = b"0123456789abcdef" * (MIB // 16)
    for answer in (whole(body), whole(gzip.compress(body), b"content-encoding: gzip\r\n")):
        async with run_loopback_server(answer) as server:
            assert (await get(server)).body == body
            assert b"accept-encoding: identity" in server.requests[0]
            assert b"connection: close" in server.requests[0]


@pytest.mark.attack("response bombs")
async def test_the_response_to_head_has_no_body_whatever_its_headers_say() -> None:
    async with run_loopback_server(HEAD + b"content-length: 10000000000\r\n\r\n") as server:
        response = await client(server).send(EgressRequest("HEAD", server.url))
    assert (response.status, response.body) == (200, b"")


@pytest.mark.attack("response bombs")
async def test_redirects_end_after_the_third() -> None:
    again = b"HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n"
    async with run_loopback_server(again) as server:
        with pytest.raises(TooManyRedirects):
            await get(server, redirects=3)
    assert len(server.requests) == 4


async def test_a_closed_port_is_unreachable() -> None:
    async with run_loopback_server(b"") as server:
        pass
    with pytest.raises(Unreachable) as error:
        await get(server)
    assert "Errno" not in str(error.value)


async def test_untrusted_tls_is_refused(tmp_path: Path) -> None:
    for name, days in (("127.0.0.1", 1), ("other.example.com", 1), ("127.0.0.1", -1)):
        async with run_loopback_server(
            whole(b"ok"), create_certificate(tmp_path, name, days=days)
        ) as server:
            trusting = ssl.create_default_context(cafile=tmp_path / "cert.pem")
            request = EgressRequest("GET", f"https://127.0.0.1:{server.port}/")
            with pytest.raises(TlsError):
                await client(server).send(request)
            if (name, days) == ("127.0.0.1", 1):
                assert (await client(server, ssl_context=trusting).send(request)).body == b"ok"
                continue
            with pytest.raises(TlsError):
                await client(server, ssl_context=trusting).send(request)


async def test_https_to_a_server_without_tls_is_refused() -> None:
    async with run_loopback_server(whole(b"plain"), answers_before_reading=True) as server:
        with pytest.raises(TlsError):
            await client(server).send(EgressRequest("GET", f"https://127.0.0.1:{server.port}/"))
