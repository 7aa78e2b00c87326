"""Attacks on redaction by tenants, with a server that returns what they choose."""

import base64
import io
import json
import secrets
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from attacks import Attempts
from cluster import Connection, Database
from integration.call_setup import TENANT_A, TENANT_B
from integration.isolation_rig import IsolationRig
from integration.loopback_server import run_loopback_server
from integration.test_connectors import REQUEST, SECRET_KEY, ConnectorHarness, answer
from integration.worker_harness import eventually

from jobforge import Context, Retry, calls, db
from jobforge.api.masking import mask_job
from jobforge.cli.processes import worker_process
from jobforge.config import Config
from jobforge.connectors.configuration import seal_secrets
from jobforge.errors import NotFound
from jobforge.observability import logs
from jobforge.redact import MARKER, RedactionScope, log_scope, scope
from jobforge.redact.background import LARGE
from jobforge.security.secret_lookup import Secrets
from jobforge.security.vault import Vault
from jobforge.types.job_history import JobHistory
from jobforge.types.jobs import JobRequest, State

pytestmark = pytest.mark.anyio

PASSWORD = f"db-{secrets.token_hex(12)}"
MAIL = f"mail-{secrets.token_hex(12)}"
JSON_TYPE = b"content-type: application/json\r\n"
TEXT_TYPE = b"content-type: text/plain\r\n"


class TwoTenantHarness(ConnectorHarness):
    """A harness for two tenants."""

    def request_of(self, tenant_id: UUID, definition: str, payload: dict[str, Any]) -> UUID:
        call = calls.enqueue_job(JobRequest(definition, payload), tenant_id=tenant_id)
        return db.run(self.conn, call).job_id

    async def end_of(
        self, tenant_id: UUID, job_id: UUID, state: State = State.SUCCEEDED
    ) -> JobHistory:
        def found() -> JobHistory:
            return db.run(self.conn, calls.get_job(job_id, tenant_id=tenant_id))

        await eventually(lambda: found().job.state is state)
        return found()

    async def result_of(self, tenant_id: UUID, **payload: Any) -> Any:
        job_id = self.request_of(tenant_id, REQUEST, payload)
        return (await self.end_of(tenant_id, job_id)).job.result

    def configure_for(self, tenant_id: UUID, name: str, url: str, *values: str) -> None:
        config_id = uuid4()
        key = db.run(self.conn, Vault(SECRET_KEY).build_tenant_key_call(tenant_id))
        given = {f"s{number}": {"value": value} for number, value in enumerate(values)}
        sealed = seal_secrets(given, config_id, key)
        config = {"name": name, "settings": {"url": url}, "secrets": sealed}
        call = calls.create_connector_config(config_id, config, tenant_id=tenant_id)
        db.run(self.conn, call)


@pytest.fixture
def harness(database: Database, conn: Connection) -> TwoTenantHarness:
    return TwoTenantHarness(database, conn)


@pytest.fixture(autouse=True)
def _secrets_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the secrets that `jobforge worker` registers at startup."""
    monkeypatch.setenv("SMTP_PASSWORD", MAIL)
    worker_process._register_secrets(  # noqa: SLF001 - as the worker does
        Config(
            database_url=f"postgresql://worker:{PASSWORD}@db.example.com/app",
            secret_key=SECRET_KEY,
            job_environment=("SMTP_PASSWORD",),
        )
    )
    yield
    for registry in (scope.OPERATOR_SECRETS, scope.JOB_SECRETS, scope.APP_SECRETS):
        registry._values.clear()  # noqa: SLF001 - other tests start without them
        registry._index = None  # noqa: SLF001 - other tests start without them


@pytest.mark.attack("redaction")
async def test_the_secrets_of_a_tenant_do_not_change_the_results_of_others(
    harness: TwoTenantHarness, attempts: Attempts
) -> None:
    body = b'{"amount": 1250, "status": "paid-out", "ready": true}'
    words = ('"amount"', ': 1250, "', "paid-out", '"status"', "true}true")
    async with (
        run_loopback_server(answer(body, headers=JSON_TYPE)) as server,
        harness.running_worker_for(server),
    ):
        harness.configure_for(TENANT_A, "words", f"{server.url}/", *words)
        own = await harness.result_of(TENANT_A, config="words", url="/")
        other = await harness.result_of(TENANT_B, url=server.url)
    attempts(len(words))
    assert other["json"] == json.loads(body)
    # The tenant's own result is still JSON with all its names.
    assert own["json"] == {"amount": 1250, "status": MARKER, "ready": True}


@pytest.mark.attack("redaction")
@pytest.mark.parametrize("kind", ["json", "text", "base64", "header", "error"])
async def test_an_echo_does_not_reveal_whether_a_guess_is_a_secret_of_others(
    harness: TwoTenantHarness, attempts: Attempts, kind: str
) -> None:
    foreign = f"billing-{secrets.token_hex(12)}"
    known = [PASSWORD, SECRET_KEY, MAIL, foreign]
    guesses = [*known, *(secrets.token_hex(12) for _ in range(996))]
    guesses = guesses[:30] if kind == "header" else guesses
    echo = {
        "json": answer(json.dumps(guesses).encode(), headers=JSON_TYPE),
        "text": answer("\n".join(guesses).encode(), headers=TEXT_TYPE),
        "base64": answer(b"\xff" + "\n".join(guesses).encode()),
        "header": answer(b"", headers=f"x-echo: {' '.join(guesses)}\r\n".encode()),
        "error": answer(" ".join(known).encode(), b"400 Bad Request", TEXT_TYPE),
    }[kind]
    async with run_loopback_server(echo) as server, harness.running_worker_for(server):
        harness.configure_for(TENANT_A, "billing", f"{server.url}/", foreign)
        harness.configure_for(TENANT_B, "own", f"{server.url}/", "own-secret-of-b")
        first = harness.request_of(TENANT_A, REQUEST, {"config": "billing", "url": "/"})
        await harness.end_of(TENANT_A, first, State.DEAD if kind == "error" else State.SUCCEEDED)
        for payload in ({"url": server.url}, {"config": "own", "url": "/"}):
            job_id = harness.request_of(TENANT_B, REQUEST, payload)
            state = State.DEAD if kind == "error" else State.SUCCEEDED
            history = await harness.end_of(TENANT_B, job_id, state)
            stored = json.dumps([history.job.result, history.attempts[-1].error])
            seen = mask_job(history.job)  # by the HTTP API
            assert MARKER not in stored + json.dumps([seen.result, seen.error])
            sent = base64.b64encode(b"\xff" + "\n".join(guesses).encode()).decode()
            assert sent in stored if kind == "base64" else all(each in stored for each in known)
    attempts(2 * len(guesses))


@pytest.mark.attack("redaction")
async def test_many_secrets_of_a_tenant_do_not_displace_those_of_the_worker(
    harness: TwoTenantHarness, attempts: Attempts
) -> None:
    async with run_loopback_server(answer(b"ok")) as server, harness.running_worker_for(server):
        jobs = []
        for number in range(51):
            values = (f"secret-{number}-{each}" for each in range(20))
            harness.configure_for(TENANT_A, f"c{number}", f"{server.url}/", *values)
            payload = {"config": f"c{number}", "url": "/"}
            jobs.append(harness.request_of(TENANT_A, REQUEST, payload))
        for job_id in jobs:
            await harness.end_of(TENANT_A, job_id)
    attempts(51 * 20)
    assert log_scope().hide(f"login with {PASSWORD} failed") == f"login with {MARKER} failed"
    assert "secret-0-0-x" in log_scope().hide("secret-0-0-x")


@pytest.mark.attack("redaction")
async def test_secrets_designed_to_be_slow_do_not_delay_the_worker(
    harness: TwoTenantHarness, attempts: Attempts
) -> None:
    values = ["a" * (8_000 + number) for number in range(10)]
    values += ["a" * (20 + number) + "b" for number in range(10)]
    body = b"a" * 200_000 + b"\n" + b"a" * 200_000
    async with (
        run_loopback_server(answer(body, headers=TEXT_TYPE)) as server,
        harness.running_worker_for(server),
    ):
        harness.configure_for(TENANT_A, "slow", f"{server.url}/", *values)
        first = harness.request_of(TENANT_A, REQUEST, {"config": "slow", "url": "/"})
        await harness.end_of(TENANT_B, harness.request_of(TENANT_B, REQUEST, {"url": server.url}))
        ended = await harness.end_of(TENANT_A, first)
    attempts(20)
    assert len(ended.attempts) == 1
    assert ended.job.result["text"].startswith(MARKER)


class RedactionWatch:
    """The threads in which long strings were redacted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.was_main: list[bool] = []
        hide = RedactionScope.hide

        def watched(scope: RedactionScope, text: str) -> str:
            if len(text) > LARGE:
                is_main = threading.current_thread() is threading.main_thread()
                self.was_main.append(is_main)
            return hide(scope, text)

        monkeypatch.setattr(RedactionScope, "hide", watched)


@pytest.mark.attack("redaction")
async def test_long_responses_and_notes_are_redacted_outside_of_the_event_loop(
    harness: TwoTenantHarness, monkeypatch: pytest.MonkeyPatch, attempts: Attempts
) -> None:
    watch = RedactionWatch(monkeypatch)

    @harness.app.job(isolation="inline")
    async def tell(ctx: Context) -> None:
        for number in range(3):
            ctx.emit("told", {"n": number, "text": "x" * 2 * LARGE})

    harness.register()
    long = answer(b"x" * 2 * LARGE, headers=TEXT_TYPE)
    async with run_loopback_server(long) as server, harness.running_worker_for(server):
        await harness.result_of(TENANT_A, url=server.url)
    job_id = harness.enqueue("tell")
    async with harness.running_worker():
        history = await harness.wait_for_state(job_id)
    reported = [event.data for event in history.events if event.kind == "event"]
    assert [each["data"]["n"] for each in reported] == [0, 1, 2]
    assert len(watch.was_main) >= 4
    assert not any(watch.was_main)
    attempts(2)


@pytest.mark.attack("redaction")
def test_a_long_output_is_redacted_outside_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = IsolationRig()
    try:
        watch = RedactionWatch(monkeypatch)
        report = rig.run("flood", size=1)
        assert len(report.stdout_tail or "") > LARGE
        assert watch.was_main == [False]
    finally:
        rig.close()


@pytest.mark.attack("redaction")
@pytest.mark.parametrize("is_right", [True, False])
async def test_a_job_that_repeats_its_payload_does_not_confirm_a_guess_of_a_secret(
    harness: TwoTenantHarness, *, is_right: bool
) -> None:
    secret = f"smtp-{secrets.token_hex(8)}"
    guess = secret if is_right else f"smtp-{secrets.token_hex(8)}"

    @harness.app.job(isolation="inline", retry=Retry(max_attempts=1))
    async def send(ctx: Context, note: str) -> None:
        ctx.secret("smtp")
        ctx.emit("sending", note)
        raise ValueError(f"cannot send {note}")

    harness.register()
    async with harness.running_worker(secrets=Secrets(None, {"JOBFORGE_SECRET_SMTP": secret})):
        history = await harness.wait_for_state(harness.enqueue("send", {"note": guess}), State.DEAD)
    said = json.dumps([history.attempts[-1].error, [event.data for event in history.events]])
    assert said.count(guess) >= 3
    assert MARKER not in said


@pytest.mark.attack("secrets")
async def test_a_secret_is_hidden_only_in_the_output_of_the_job_that_received_it(
    harness: TwoTenantHarness,
) -> None:
    secret = f"smtp-{secrets.token_hex(8)}"

    @harness.app.job(isolation="inline", retry=Retry(max_attempts=1))
    async def send(ctx: Context) -> None:
        ctx.emit("logging in", {"given": ctx.secret("smtp")})
        raise ValueError(f"login {ctx.secret('smtp')} failed")

    @harness.app.job(isolation="inline")
    async def fetch(ctx: Context) -> None:
        ctx.emit("fetched", {"body": secret})

    harness.register()
    async with harness.running_worker(secrets=Secrets(None, {"JOBFORGE_SECRET_SMTP": secret})):
        sent = await harness.wait_for_state(harness.enqueue("send"), State.DEAD)
        fetched = await harness.wait_for_state(harness.enqueue("fetch"))
    said = json.dumps([sent.attempts[-1].error, [event.data for event in sent.events]])
    assert secret not in said
    assert said.count(MARKER) >= 2
    assert secret in json.dumps([event.data for event in fetched.events])


@pytest.mark.attack("secrets")
@pytest.mark.parametrize("form", ["{}_TOKEN", "{}-token", "{}.token"])
def test_a_job_cannot_request_the_secret_of_a_tenant(form: str) -> None:
    environ = {f"JOBFORGE_SECRET_{TENANT_A.hex.upper()}_TOKEN": "of-tenant-a"}
    found = Secrets(None, environ)
    assert found.lookup_for_tenant("env:TOKEN", TENANT_A) == "of-tenant-a"
    for name in (form.format(TENANT_A.hex), form.format(TENANT_A.hex.upper())):
        with pytest.raises(NotFound):
            found.lookup(name)


def test_a_worker_warns_about_a_password_that_it_cannot_hide() -> None:
    output = io.StringIO()
    logs.configure(format="json", stream=output)
    try:
        config = Config(database_url="postgresql://worker:worker@db.example.com/app")
        worker_process._register_secrets(config)  # noqa: SLF001 - as the worker does
        logs.emit("job.found", worker_id=7)
    finally:
        logs.unconfigure()
    warning, found = map(json.loads, output.getvalue().splitlines())
    assert (warning["event"], warning["setting"]) == ("secret.not_hidden", "database_url")
    assert "8 characters" in warning["reason"]
    assert found["worker_id"] == 7


@pytest.mark.parametrize("names", [("AWS_*",), ("AWS_*", "*")])
def test_a_worker_warns_if_jobs_receive_all_variables(names: tuple[str, ...]) -> None:
    output = io.StringIO()
    logs.configure(format="json", stream=output)
    try:
        worker_process._warn_about_environment(Config(job_environment=names))  # noqa: SLF001 - as the worker does
    finally:
        logs.unconfigure()
    events = [json.loads(line)["event"] for line in output.getvalue().splitlines()]
    assert events == (["environment.not_restricted"] if "*" in names else [])
