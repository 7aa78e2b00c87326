"""`jobforge server` as operators run it, and the keys that they create for it."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from attacks import Attempts
from cluster import Database, connect_to, fresh_database, wait_until
from integration.terminal import RunningProgram, Terminal

from jobforge.embedded import PostgresServer


@pytest.fixture(scope="module")
def database(server: PostgresServer) -> Iterator[Database]:
    """Return one database for all tests of this module."""
    with fresh_database(server) as fresh:
        yield fresh


@pytest.fixture
def shell(tmp_path: Path, database: Database) -> Terminal:
    return Terminal(
        tmp_path,
        JOBFORGE_DATABASE_URL=database.url,
        JOBFORGE_LOG_FORMAT="json",
        JOBFORGE_SERVER_PORT="0",
    )


def _lines(program: RunningProgram, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in program.output.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def _url(program: RunningProgram) -> str:
    program.wait_for("server.listening")
    return str(_lines(program, "server.listening")[0]["url"])


def test_a_server_responds_logs_and_stops_on_a_signal(shell: Terminal) -> None:
    key = shell.read("keys", "create", "first", "--super-admin")
    with shell.start("server") as program:
        url = _url(program)
        headers = {"authorization": f"Bearer {key}", "x-request-id": "the-first"}
        client = httpx2.Client(base_url=url, headers=headers, trust_env=False)
        with client:
            assert client.get("/ready").json() == {"status": "ok"}
            assert client.head("/ready").status_code == 405
            assert client.get("/api/v1/tenants").status_code == 200
            assert client.get("/api/v1/openapi.json").json()["openapi"].startswith("3.1")
            missing = client.get("/api/v1/jobs/secret-in-a-path")
            assert missing.status_code == 422
        program.signal(signal.SIGTERM)
        assert program.wait_for_exit() == 0, program.output
    lines = _lines(program, "request.done")
    line = next(line for line in lines if line.get("route") == "/api/v1/tenants")
    assert (line["method"], line["status"], line["request_id"]) == ("GET", 200, "the-first")
    assert line["actor"].startswith("key:")
    assert key not in program.output
    assert "secret-in-a-path" not in program.output


def test_a_server_uses_its_database_if_the_settings_also_name_a_server(
    tmp_path: Path, database: Database
) -> None:
    shell = Terminal(
        tmp_path,
        JOBFORGE_DATABASE_URL=database.url,
        JOBFORGE_SERVER="http://127.0.0.1:1",
        JOBFORGE_LOG_FORMAT="json",
        JOBFORGE_SERVER_PORT="0",
    )
    with shell.start("server") as program:
        assert _url(program)


def test_requests_that_arrived_before_the_stop_are_completed(shell: Terminal) -> None:
    key = shell.read("keys", "create", "slow", "--super-admin")
    with shell.start("server") as program:
        host, _, port = _url(program).removeprefix("http://").partition(":")
        body = b'{"slug": "asked-late"}'
        head = (
            f"POST /api/v1/tenants HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with socket.create_connection((host, int(port)), timeout=30) as asking:
            asking.sendall(head.encode() + body[:5])
            # A request counts as received only when the server has begun to handle it.
            _wait_for_a_second_answer(host, int(port))
            program.signal(signal.SIGTERM)
            asking.sendall(body[5:])
            assert asking.recv(12) == b"HTTP/1.1 201"
        assert program.wait_for_exit() == 0, program.output


def test_a_stopping_server_ends_streams_with_a_reason(shell: Terminal) -> None:
    key = shell.read("keys", "create", "listener", "--super-admin")
    tenant = shell.read("tenants", "create", "listened-to")
    headers = {"authorization": f"Bearer {key}", "x-jobforge-tenant": tenant}
    with shell.start("server") as program:
        url = f"{_url(program)}/api/v1/stream"
        with httpx2.stream("GET", url, headers=headers, trust_env=False, timeout=30) as stream:
            assert stream.status_code == 200
            program.signal(signal.SIGTERM)
            assert "server_stopping" in stream.read().decode()
        assert program.wait_for_exit() == 0, program.output


@pytest.mark.parametrize(
    ("login", "damage", "reason"),
    [
        ("admin_login", "select 1", "find_api_key"),
        ("server_login", "alter schema jobforge rename to elsewhere", "does not exist"),
        (
            "server_login",
            "delete from jobforge.migrations where name like 'migrations/0001%'",
            "Migrations are due: migrations/0001",
        ),
    ],
)
def test_a_server_without_its_database_is_not_ready(
    server: PostgresServer, tmp_path: Path, login: str, damage: str, reason: str
) -> None:
    with fresh_database(server) as own:
        settings = {"JOBFORGE_LOG_FORMAT": "json", "JOBFORGE_SERVER_PORT": "0"}
        shell = Terminal(tmp_path, JOBFORGE_DATABASE_URL=own.url_as(login), **settings)
        with shell.start("server") as program:
            url = _url(program)
            with connect_to(own.url) as conn:
                conn.execute(damage.encode())
            answer = httpx2.get(f"{url}/ready", trust_env=False)
            assert httpx2.get(f"{url}/health", trust_env=False).status_code == 200
            program.wait_for("server.unready")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert reason not in answer.text
    assert reason in str(_lines(program, "server.unready")[0]["error"])


def _wait_for_a_second_answer(host: str, port: int) -> None:
    httpx2.get(f"http://{host}:{port}/health", trust_env=False).raise_for_status()


def test_a_port_in_use_is_reported(shell: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = shell.run("server", "--port", str(taken.getsockname()[1]))
    assert result.returncode == 2
    assert "Cannot listen" in result.stderr


def test_an_unreachable_database_is_reported(tmp_path: Path) -> None:
    away = Terminal(tmp_path, JOBFORGE_DATABASE_URL="postgresql://127.0.0.1:1/none")
    result = away.run("server")
    assert (result.returncode, "Cannot connect" in result.stderr) == (7, True)


def test_keys_are_created_listed_rotated_and_revoked(shell: Terminal) -> None:
    tenant = shell.read("tenants", "create", "key-holder")
    created = shell.read_json(
        *("keys", "create", "reader", "--role", "viewer", "--tenant", tenant),
        *("--scope", "jobs:read", "--expires-in", "90d"),
    )
    assert created["key"].startswith("jf_")
    (listed,) = shell.read_json("keys", "list", "--tenant", tenant)
    assert (listed["id"], listed["scopes"], listed["role"]) == (
        created["id"],
        ["jobs:read"],
        "viewer",
    )
    new = shell.read_json("keys", "rotate", created["id"], "--overlap", "1h")
    assert new["key"] != created["key"]
    shell.read("keys", "revoke", new["id"], "--yes")
    revoked = {key["id"]: key["revoked_at"] for key in shell.read_json("keys", "list")}
    assert revoked[new["id"]]
    assert not revoked[created["id"]]
    worker = shell.read_json("keys", "create", "fleet", "--role", "worker", "--every-tenant")
    assert worker["key"].startswith("jf_")
    assert shell.run("keys", "create", "x", "--role", "god", "--tenant", tenant).returncode == 2
    absent = "00000000-0000-4000-8000-000000000000"
    assert shell.run("keys", "revoke", absent, "--yes").returncode == 3


def test_the_openapi_document_is_printed(shell: Terminal) -> None:
    assert "/api/v1/jobs" in json.loads(shell.read("openapi"))["paths"]


@pytest.mark.attack("limits")
@pytest.mark.timeout(300)  # parsing takes seconds, and longer on a busy machine
def test_a_server_responds_to_others_while_it_parses_millions_of_arrays(
    shell: Terminal, attempts: Attempts
) -> None:
    key = shell.read("keys", "create", "deep", "--super-admin")
    nested = b"[" * 60 + b"]" * 60 + b","
    body = b"[" + nested * (16_000_000 // len(nested)) + b"0]"
    is_sent = threading.Event()

    def chunks() -> Iterator[bytes]:
        yield from (body[at : at + 65_536] for at in range(0, len(body), 65_536))
        is_sent.set()

    headers = {
        "authorization": f"Bearer {key}",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "x-jobforge-tenant": str(uuid4()),
    }
    answered = 0
    with shell.start("server") as program, ThreadPoolExecutor(1) as pool:
        url = _url(program)
        with (
            httpx2.Client(base_url=url, headers=headers, trust_env=False, timeout=240) as sender,
            httpx2.Client(base_url=url, trust_env=False, timeout=240) as other,
        ):
            large = pool.submit(sender.post, "/api/v1/jobs/batch", content=chunks())
            while not large.done():
                counts = is_sent.is_set()
                assert other.get("/health").status_code == 200
                answered += counts
        assert large.result().status_code == 422, large.result().text
    # A server that parsed in its event loop would respond once, before the end of the body.
    assert answered >= 10
    attempts(1)


FEW_FILES = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh"]


@pytest.mark.attack("limits")
@pytest.mark.parametrize(
    ("addresses", "header_timeout_s"),
    [(1, 600), (8, 2)],
    ids=["one address", "eight addresses"],
)
def test_half_open_connections_do_not_exhaust_the_file_descriptors_of_a_server(
    shell: Terminal, addresses: int, header_timeout_s: int, attempts: Attempts
) -> None:
    """The limit per address stops one client; a time limit stops many clients."""
    setting = f"JOBFORGE_HEADER_TIMEOUT_S={header_timeout_s}"
    shell.prefix = [*FEW_FILES, "env", setting]
    with shell.start("server") as program, ExitStack() as kept:
        url = _url(program)
        port = httpx2.URL(url).port
        assert port is not None
        for number in range(400):
            source = f"127.0.0.{2 + number % addresses}"
            half = socket.create_connection(("127.0.0.1", port), 30, source_address=(source, 0))
            kept.enter_context(half)
            with suppress(OSError):  # the server has closed it
                half.sendall(b"GET /health HTTP/1.1\r\nHost: here\r\n")
        transport = httpx2.HTTPTransport(local_address="127.0.0.20")
        with httpx2.Client(base_url=url, transport=transport, trust_env=False) as client:
            wait_until(lambda: client.get("/ready").status_code == 200)
            assert client.get("/api/v1/session").status_code == 401
    assert "Too many open files" not in program.output
    attempts(400)
