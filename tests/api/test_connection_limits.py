"""The server closes connections that are slow, idle or too many, and serves the others."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from api.api_server import API, ApiServer, open_api_server, serve_in_thread
from api.stream_listener import listen_to_stream
from attacks import Attempts
from cluster import fresh_database
from uvicorn.server import ServerState

from jobforge.api.connection_limits import limiter_from_config
from jobforge.api.http_protocol import LimitedHttpProtocol
from jobforge.config import Config
from jobforge.embedded import PostgresServer

PATIENCE_S = 30.0  # how long the test waits for what must happen immediately
SHORT: dict[str, Any] = {
    "header_timeout_s": 0.3,
    "body_timeout_s": 0.3,
    "client_connections": 24,
    "client_connections_per_address": 4,
    "streams_per_key": 3,
}
UNTRUSTED_CLIENT = "127.0.0.2"  # not a trusted proxy: the server trusts only 127.0.0.1


@pytest.fixture(scope="module")
def short(server: PostgresServer) -> Iterator[ApiServer]:
    """Return a server whose timeouts and limits a test reaches."""
    with fresh_database(server) as database, open_api_server(database, **SHORT) as opened:
        yield opened


@contextmanager
def open_socket(url: str, source: str = "127.0.0.1") -> Iterator[socket.socket]:
    port = httpx2.URL(url).port
    assert port is not None
    with socket.create_connection(
        ("127.0.0.1", port), timeout=PATIENCE_S, source_address=(source, 0)
    ) as opened:
        yield opened


def until_closed(opened: socket.socket) -> str:
    """Return all that the server sends; fail if the server does not close the connection."""
    parts = []
    while part := opened.recv(65_536):
        parts.append(part)
    return b"".join(parts).decode()


def code_of(answer: str) -> str:
    return str(json.loads(answer.partition("\r\n\r\n")[2])["code"])


def post(key: str, length: int, *more: str) -> bytes:
    lines = [
        "POST /api/v1/jobs HTTP/1.1",
        "Host: here",
        f"Authorization: Bearer {key}",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        *more,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@pytest.mark.attack("limits")
def test_headers_that_do_not_arrive_in_time_end_the_connection(
    short: ApiServer, attempts: Attempts
) -> None:
    with open_socket(short.url) as silent:
        assert until_closed(silent) == ""
    line = b"GET /health HTTP/1.1\r\n"
    for begun in (b"G", line, line + b"Host: here\r\nX-A: "):
        with open_socket(short.url) as slow:
            slow.sendall(begun)
            assert code_of(until_closed(slow)) == "request_timeout"
    with open_socket(short.url) as kept:
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
        assert kept.recv(65_536).startswith(b"HTTP/1.1 200")
        kept.sendall(b"\r\n")  # no request yet, but no longer idle
        assert until_closed(kept) == ""
    with open_socket(short.url) as dripping:
        dripping.sendall(b"GET /health HTTP/1.1\r\n")
        dripping.settimeout(0.02)
        assert drip(dripping, b"X-A: b\r\n").startswith("HTTP/1.1 408")
    attempts(6)


def drip(opened: socket.socket, data: bytes) -> str:
    """Send a few bytes repeatedly until the server responds."""
    for _ in range(int(PATIENCE_S / 0.02)):
        opened.sendall(data)
        try:
            return opened.recv(65_536).decode()
        except TimeoutError:
            continue
    raise AssertionError("the server has waited")


@pytest.mark.attack("limits")
def test_a_body_that_makes_no_progress_ends_the_connection(
    short: ApiServer, attempts: Attempts
) -> None:
    key = short.a.keys["tenant_admin"]
    with open_socket(short.url) as stopped:
        stopped.sendall(post(key, 50_000) + b'{"definition": ')
        assert code_of(until_closed(stopped)) == "request_timeout"
    with open_socket(short.url) as dripping:
        dripping.sendall(post(key, 50_000) + b'{"definition": ')
        dripping.settimeout(0.05)
        assert drip(dripping, b" ").startswith("HTTP/1.1 408")
    # the response was sent, and the body may continue indefinitely
    with open_socket(short.url) as refused:
        refused.sendall(post("wrong", 50_000))
        answer = until_closed(refused)
        assert answer.startswith("HTTP/1.1 401")
        assert "408" not in answer
    attempts(3)


def test_a_body_that_makes_progress_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test fires the timer itself."""
    connections = limiter_from_config(Config(body_timeout_s=10))
    config = uvicorn.Config(_answer_nothing, log_config=None)
    loop, transport = ManualLoop(), ManualTransport()
    protocol = LimitedHttpProtocol(config, ServerState(), {}, loop, connections=connections)
    monkeypatch.setattr(protocol, "_start_asgi_task", lambda *_: None)
    protocol.connection_made(transport)
    protocol.data_received(post("key", 1_000_000))
    for _ in range(3):
        protocol.data_received(b"x" * 5000)
        loop.fire()
        assert not transport.is_closing()
    protocol.data_received(b"x" * 4999)
    loop.fire()
    assert b"408" in transport.written
    assert transport.is_closing()


async def _answer_nothing(_scope: Any, _receive: Any, _send: Any) -> None: ...


class ManualLoop:
    """An event loop that keeps the last timer that was started."""

    def call_later(self, _: float, act: Callable[[], None]) -> "ManualLoop":
        self.fire = act
        return self

    def cancel(self) -> None: ...


class ManualTransport(asyncio.Transport):
    """A transport that keeps what is written to it."""

    written = b""
    _is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self._is_closed = True

    def is_closing(self) -> bool:
        return self._is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@pytest.mark.attack("limits")
def test_an_idle_connection_is_closed(short: ApiServer) -> None:
    config = Config(database_url=short.database.url_as("server_login"), keep_alive_s=1)
    with serve_in_thread(config) as url, open_socket(url) as idle:
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
        answer = until_closed(idle)
    assert answer.startswith("HTTP/1.1 200")
    assert "408" not in answer


@pytest.mark.attack("limits")
def test_one_address_cannot_use_up_the_connections_of_others(
    server: PostgresServer, attempts: Attempts
) -> None:
    limits = {**SHORT, "header_timeout_s": PATIENCE_S}
    with (
        fresh_database(server) as database,
        open_api_server(database, **limits) as api,
        ExitStack() as stack,
    ):
        kept = [stack.enter_context(open_socket(api.url, UNTRUSTED_CLIENT)) for _ in range(4)]
        for _ in range(20):
            with open_socket(api.url, UNTRUSTED_CLIENT) as one_more:
                assert code_of(until_closed(one_more)) == "too_many_connections"
        with open_socket(api.url, "127.0.0.3") as other:
            other.sendall(b"GET /health HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            assert until_closed(other).startswith("HTTP/1.1 200")
        kept.pop().close()
        with open_socket(api.url, UNTRUSTED_CLIENT) as again:
            again.sendall(b"GET /health HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            assert until_closed(again).startswith("HTTP/1.1 200")
    attempts(20)


@pytest.mark.attack("limits")
def test_the_total_number_of_connections_is_limited(
    server: PostgresServer, attempts: Attempts
) -> None:
    limits = {**SHORT, "header_timeout_s": PATIENCE_S}
    with (
        fresh_database(server) as database,
        open_api_server(database, **limits) as api,
        ExitStack() as stack,
    ):
        for address in range(2, 8):
            for _ in range(4):
                stack.enter_context(open_socket(api.url, f"127.0.0.{address}"))
        for source in ("127.0.0.9", "127.0.0.1"):
            with open_socket(api.url, source) as one_more:
                assert code_of(until_closed(one_more)) == "too_many_connections"
    attempts(2)


@pytest.mark.attack("limits")
@pytest.mark.anyio
async def test_clients_behind_a_trusted_proxy_are_limited_by_their_own_address(
    short: ApiServer, attempts: Attempts
) -> None:
    """The server reads the header only from a trusted proxy, because any other client could forge
    it.
    """
    limits = {**SHORT, "streams_per_key": 100, "client_connections": 50}
    config = Config(database_url=short.database.url_as("server_login"), **limits)
    forwarded = {"x-forwarded-for": "203.0.113.7"}
    with serve_in_thread(config) as url:
        async with (
            listen_to_stream(short, short.a, url=url, headers=forwarded),
            listen_to_stream(short, short.a, url=url, headers=forwarded),
            listen_to_stream(short, short.a, url=url, headers=forwarded),
            listen_to_stream(short, short.a, url=url, headers=forwarded),
            httpx2.AsyncClient(base_url=url, trust_env=False) as client,
        ):
            refused = await client.get("/health", headers=forwarded)
            assert (refused.status_code, refused.json()["code"]) == (503, "too_many_connections")
            other = await client.get("/health", headers={"x-forwarded-for": "203.0.113.8"})
            assert other.status_code == 200
            assert (await client.get("/health")).status_code == 200
            transport = httpx2.AsyncHTTPTransport(local_address=UNTRUSTED_CLIENT)
            async with httpx2.AsyncClient(
                base_url=url, transport=transport, trust_env=False
            ) as stranger:
                assert (await stranger.get("/health", headers=forwarded)).status_code == 200
    attempts(1)


@pytest.mark.attack("limits")
@pytest.mark.anyio
async def test_streams_are_limited_by_key(short: ApiServer, attempts: Attempts) -> None:
    viewer = {"authorization": f"Bearer {short.a.keys['viewer']}"}
    async with (
        httpx2.AsyncClient(base_url=short.url + API, headers=viewer, trust_env=False) as client,
        listen_to_stream(short, short.a),
        listen_to_stream(short, short.a),
    ):
        async with listen_to_stream(short, short.a):
            refused = await client.get("/stream")
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
            job = short.client("tenant_admin").post("/jobs", json={"definition": "plain"}).json()
            followed = await client.get(f"/jobs/{job['id']}/logs", params={"follow": True})
            assert followed.json()["code"] == "too_many_streams"
            async with listen_to_stream(short, short.b):
                pass
        async with listen_to_stream(short, short.a):
            pass
    attempts(2)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
