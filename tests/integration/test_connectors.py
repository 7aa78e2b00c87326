"""`connector.http.request` in a worker: the request, the stored result, and failures."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database
from integration.call_setup import TENANT_A, TENANT_B
from integration.loopback_server import LoopbackServer, run_loopback_server
from integration.worker_harness import WorkerHarness
from sql.long_json import Column, plant_long_values

from jobforge import calls, db
from jobforge.config import Config
from jobforge.connectors import QUEUE, ConnectorServices, make_connectors
from jobforge.connectors.configuration import seal_secrets
from jobforge.security.vault import Vault
from jobforge.types.job_history import JobHistory
from jobforge.types.jobs import State
from jobforge.worker import Worker

pytestmark = pytest.mark.anyio

REQUEST = "connector.http.request"
SECRET_KEY = "k" * 40
TOKEN = "tok-9f8e7d6c5b4a-very-secret"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def answer(body: bytes, status: bytes = b"200 OK", headers: bytes = b"") -> bytes:
    length = b"content-length: %d\r\n" % len(body)
    return b"HTTP/1.1 " + status + b"\r\n" + headers + length + b"\r\n" + body


JSON = answer(b'{"paid": true}', headers=b"content-type: application/json\r\n")


class ConnectorHarness(WorkerHarness):
    """A harness whose worker serves only connectors and reaches one loopback server."""

    @asynccontextmanager
    async def running_worker_for(
        self, server: LoopbackServer, **more: Any
    ) -> AsyncIterator[Worker]:
        config = Config(
            egress_allow=(f"127.0.0.1:{server.port}",),
            egress_http=True,
            secret_key=SECRET_KEY,
            **more,
        )
        async with db.Database(self.database.url_as("worker_login"), size=2) as pool:
            make = partial(
                make_connectors,
                services=ConnectorServices(pool.run, config),
                client=self.app.client,
            )
            async with self.running_worker(queues={QUEUE: 4}, make_connectors=make) as worker:
                yield worker

    async def request(
        self, state: State = State.SUCCEEDED, more: Any = None, **payload: Any
    ) -> JobHistory:
        return await self.wait_for_state(self.enqueue(REQUEST, payload, **(more or {})), state)

    def configure(self, name: str, url: str, secrets: dict[str, Any], **settings: Any) -> UUID:
        config_id = uuid4()
        key = db.run(self.conn, Vault(SECRET_KEY).build_tenant_key_call(TENANT_A))
        config = {
            "name": name,
            "settings": {"url": url, **settings},
            "secrets": seal_secrets(secrets, config_id, key),
        }
        call = calls.create_connector_config(config_id, config, tenant_id=TENANT_A)
        return db.run(self.conn, call)


def failure(job: JobHistory) -> dict[str, Any]:
    """Return the error of the last attempt."""
    error = job.attempts[-1].error
    assert error is not None
    return error


@pytest.fixture
def harness(database: Database, conn: Connection) -> ConnectorHarness:
    return ConnectorHarness(database, conn)


async def test_a_request_is_sent_once_and_its_response_is_the_result(
    harness: ConnectorHarness,
) -> None:
    async with run_loopback_server(JSON) as server, harness.running_worker_for(server):
        more = {"traceparent": TRACE}
        job = await harness.request(
            more=more, url=f"{server.url}/pay?x=1", method="POST", body={"amount": 5},
            headers={"X-Own": "yes"},
        )  # fmt: skip
        [sent] = server.requests
    head, _, body = sent.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "post /pay?x=1 http/1.1"
    assert json.loads(body) == {"amount": 5}
    assert {
        f"idempotency-key: {job.job.id}",
        f"traceparent: {TRACE}",
        "x-own: yes",
        "content-type: application/json",
        f"host: 127.0.0.1:{server.port}",
    } <= set(lines)
    assert any(line.startswith(f"x-jobforge-fence: {job.job.id}.") for line in lines)
    result = job.job.result
    assert (result["status"], result["json"]) == (200, {"paid": True})
    assert result["headers"]["content-type"] == "application/json"


async def test_every_response_can_be_stored(harness: ConnectorHarness) -> None:
    json_type = b"content-type: application/json\r\n"
    deep = b"[" * 100 + b"]" * 100
    bodies = [
        (answer("grüß".encode()), {"text": "grüß"}),
        (answer(b"\xff\xfe"), {"base64": base64.b64encode(b"\xff\xfe").decode()}),
        (answer(b"a\x00b"), {"base64": base64.b64encode(b"a\x00b").decode()}),
        (answer(b'{"a": "\\u0000"}', headers=json_type), {"text": '{"a": "\\u0000"}'}),
        (answer(b"not json", headers=json_type), {"text": "not json"}),
        (answer(deep, headers=json_type), {"text": deep.decode()}),
        (answer(b"", b"204 No Content"), {"text": ""}),
    ]
    for raw, kept in bodies:
        async with run_loopback_server(raw) as server, harness.running_worker_for(server):
            result = (await harness.request(url=server.url)).job.result
            assert {name: result.get(name) for name in kept} == kept


async def test_a_forbidden_address_fails_the_job_permanently_and_is_not_named(
    harness: ConnectorHarness,
) -> None:
    async with run_loopback_server(JSON) as server, harness.running_worker_for(server):
        for url in ("https://169.254.169.254/", "https://localhost/", f"{server.url}0/"):
            job = await harness.request(State.DEAD, url=url)
            assert len(job.attempts) == 1
        error = failure(await harness.request(State.DEAD, url="https://169.254.169.254/x"))
        assert error["code"] == "address_not_allowed"
        assert "169.254" not in json.dumps(error)
        assert server.requests == []


async def test_the_status_decides_whether_the_request_is_retried(
    harness: ConnectorHarness,
) -> None:
    async with (
        run_loopback_server(answer(b"no such", b"404 Not Found")) as server,
        harness.running_worker_for(server),
    ):
        job = await harness.request(State.DEAD, url=server.url)
        error = failure(job)
        assert (error["code"], error["status"]) == ("unexpected_status", 404)
        assert error["body"] == "no such"
        assert (await harness.request(url=server.url, expected_status=[404])).job.result[
            "status"
        ] == 404
    later = answer(b"", b"503 Busy", b"retry-after: 1800\r\n")
    async with run_loopback_server(later) as server, harness.running_worker_for(server):
        job = await harness.request(State.SCHEDULED, url=server.url)
        [attempt] = job.attempts
        assert attempt.ended_at is not None
        assert 1800 <= (job.job.run_at - attempt.ended_at).total_seconds() <= 1801
    never = answer(b"", b"503 Busy", b"retry-after: Mon, 01 Jan 99999999999 00:00:00 GMT\r\n")
    async with run_loopback_server(never) as server, harness.running_worker_for(server):
        job = await harness.request(State.SCHEDULED, url=server.url)
        assert failure(job)["status"] == 503


WRONG: list[dict[str, Any]] = [
    {},
    {"url": ""},
    {"url": "http://x\r\nHost: y/"},
    {"url": "https://example.com/", "method": "CONNECT"},
    {"url": "https://example.com/", "method": "TRACE"},
    {"url": "https://example.com/", "headers": {"X-A": "b\r\nX-B: c"}},
    {"url": "https://example.com/", "headers": {"Host": "evil"}},
    {"url": "https://example.com/", "headers": {"Connection": "close"}},
    {"url": "https://example.com/", "headers": {"X A": "b"}},
    {"url": "https://user:pw@example.com/"},
    {"url": "https://example.com/", "headers": {"X-A": "{{secret.token}}"}},
    {"url": "https://example.com/", "redirects": 4},
    {"url": "https://example.com/", "timeout_s": 31},
    {"url": "https://example.com/", "verify": False},
    {"url": "/path", "config": "unknown"},
]


async def test_an_invalid_request_fails_the_job_before_anything_is_sent(
    harness: ConnectorHarness,
) -> None:
    async with run_loopback_server(JSON) as server, harness.running_worker_for(server):
        jobs = [harness.enqueue(REQUEST, payload) for payload in WRONG]
        for job_id, payload in zip(jobs, WRONG, strict=True):
            ended = await harness.wait_for_state(job_id, State.DEAD)
            assert len(ended.attempts) == 1, payload


@pytest.mark.parametrize("column", ["settings", "secrets"])
async def test_a_configuration_that_is_too_long_as_text_fails_the_job(
    harness: ConnectorHarness, conn: Connection, column: str
) -> None:
    async with run_loopback_server(JSON) as server, harness.running_worker_for(server):
        harness.configure("shop", server.url, {})
        plant_long_values(conn, Column("connector_configs", column))
        job = await harness.request(State.DEAD, config="shop", url="/pay")
        assert server.requests == []
    assert "configuration 'shop' is too long" in failure(job)["message"]


async def test_secrets_are_sent_only_to_their_origin_and_never_stored_in_clear(
    harness: ConnectorHarness, conn: Connection, tmp_path: Path
) -> None:
    folder = tmp_path / str(TENANT_A)
    folder.mkdir()
    (folder / "user").write_text("ada-of-the-folder\n")
    (tmp_path / str(TENANT_B)).mkdir()
    (tmp_path / str(TENANT_B) / "foreign").write_text("of-the-other-tenant")
    echo = answer(f"you sent {TOKEN} and ada-of-the-folder".encode())
    async with (
        run_loopback_server(echo) as server,
        harness.running_worker_for(server, secrets_dir=tmp_path),
    ):
        secrets = {"token": {"value": TOKEN}, "user": {"from": "file:user"}}
        headers = {"Authorization": "Bearer {{secret.token}}"}
        harness.configure("billing", f"{server.url}/v1/", secrets, headers=headers)
        job = await harness.request(
            config="billing", url="invoices", headers={"X-User": "{{ secret.user }}"}
        )
        [sent] = server.requests
        assert b"GET /v1/invoices " in sent
        assert f"Authorization: Bearer {TOKEN}".encode() in sent
        assert b"X-User: ada-of-the-folder" in sent
        assert job.job.result["text"] == "you sent [redacted] and [redacted]"

        away = await harness.request(State.DEAD, config="billing", url="https://example.com/")
        assert "origin" in failure(away)["message"]
        harness.configure("foreign", server.url, {"x": {"from": "file:foreign"}})
        stolen = {"config": "foreign", "url": "/", "headers": {"X": "{{secret.x}}"}}
        lost = await harness.request(State.SCHEDULED, **stolen)
        assert failure(lost)["message"].endswith("not found")
        assert len(server.requests) == 1
    assert in_clear(conn, TOKEN) == []


async def test_secrets_are_hidden_in_bytes_and_in_the_url_of_a_response(
    harness: ConnectorHarness, conn: Connection
) -> None:
    onward = answer(b"", b"302 Found", f"location: /?token={TOKEN}\r\n".encode())
    echo = answer(b"\xff\x00" + TOKEN.encode() + b"\xff")
    answers = iter([onward, echo])

    async def in_turn(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(next(answers))
        await writer.drain()

    async with run_loopback_server(in_turn) as server, harness.running_worker_for(server):
        headers = {"Authorization": "Bearer {{secret.token}}"}
        harness.configure("billing", f"{server.url}/", {"token": {"value": TOKEN}}, headers=headers)
        result = (await harness.request(config="billing", url="/", redirects=1)).job.result
    assert result["url"].endswith("/?token=[redacted]")
    assert "[redacted]" in result["base64"]
    assert in_clear(conn, TOKEN) == []


def in_clear(conn: Connection, text: str) -> list[str]:
    """Return the tables with a row that contains this text or its bytes."""
    tables = conn.execute(
        """
        select c.relname as name from pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind = 'r'
        """
    ).fetchall()
    found = []
    for table in tables:
        rows = conn.execute(f'select r::text as row from jobforge."{table["name"]}" as r'.encode())
        forms = (text, text.encode().hex(), base64.b64encode(text.encode()).decode())
        if any(form in row["row"] for row in rows for form in forms):
            found.append(table["name"])
    return found


async def test_the_search_for_secrets_finds_a_planted_one(
    harness: ConnectorHarness, conn: Connection
) -> None:
    async with run_loopback_server(JSON) as server, harness.running_worker_for(server):
        await harness.request(url=server.url, body={"token": TOKEN})
    assert in_clear(conn, TOKEN) != []


async def test_a_canceled_request_closes_its_connection(
    harness: ConnectorHarness,
) -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def waiting(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        closed.set()

    async with run_loopback_server(waiting) as server, harness.running_worker_for(server):
        job_id = harness.enqueue(REQUEST, {"url": server.url})
        await asked.wait()
        db.run(harness.conn, calls.cancel_job(job_id, tenant_id=TENANT_A))
        await harness.wait_for_state(job_id, State.CANCELED)
        async with asyncio.timeout(30):
            await closed.wait()
