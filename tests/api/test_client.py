"""The HTTP client: it returns what the database returns, raises its errors, and repeats nothing."""

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from api.api_server import ApiServer
from api.faulty_proxy import FaultyProxy
from cluster import wait_until
from integration.worker_harness import eventually
from sql.engine import claim, complete, enqueue, enqueue_one, new_worker, note, state_of

from jobforge import AsyncClient, Client, Context, JobForge, calls, db, errors
from jobforge.calls import Call
from jobforge.client.routes import ROUTES, request_from_call
from jobforge.client.stream import StreamEvent
from jobforge.client.transport import RetryPolicy
from jobforge.security.webhook_secrets import generate_webhook_id
from jobforge.types.api_keys import Role
from jobforge.types.events import DeliveryOutcome, Dispatched, EventFilter, Reaction
from jobforge.types.jobs import JobFilter, JobRequest, State, Step
from jobforge.types.operations import OperationKind, OperationOptions, OperationState
from jobforge.types.triggers import TriggerFilter, TriggerType
from jobforge.types.workflows import WorkflowFilter, WorkflowRequest

WORKER = new_worker()
LATER = datetime.now(UTC) + timedelta(days=30)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def client(api: ApiServer) -> Iterator[Client]:
    with Client(api.url, api.a.keys["tenant_admin"]) as opened:
        yield opened


@pytest.fixture(scope="module")
def operator(api: ApiServer) -> Iterator[Client]:
    """Return a super admin's client without a tenant of its own."""
    with Client(f"{api.url}/", api.super_key) as opened:
        yield opened


@pytest.fixture
def proxy(api: ApiServer) -> Iterator[FaultyProxy]:
    with FaultyProxy(api.url).serving() as opened:
        yield opened


@dataclass(frozen=True, slots=True)
class TenantData:
    """Objects of tenant A: waiting jobs, a dead job, and a job that writes a log."""

    tenant_id: UUID
    waiting: list[UUID]
    dead: UUID
    talking: UUID
    fingerprint: str


@pytest.fixture(scope="module")
def tenant_data(api: ApiServer) -> TenantData:
    tenant_id = api.a.tenant_id
    enqueue(api.conn, tenant_id, 2, definition="plain", priority=5)
    dead, talking = claim(api.conn, WORKER, limit=2, tenants=[tenant_id])
    error = {"type": "Oops", "message": "no answer"}
    complete(api.conn, WORKER, [dead], "failed", error=error, final=True)
    note(api.conn, WORKER, [talking], "log", message="hello")
    step = Step(tenant_id, talking["job_id"], talking["lease"], "send", 0, {"n": 1})
    db.run(api.conn, calls.save_steps(WORKER, [step]))
    waiting = enqueue(api.conn, tenant_id, 6, definition="plain", tags=["old"])
    [group] = db.run(api.conn, calls.list_failures(tenant_id=tenant_id))
    return TenantData(
        tenant_id,
        waiting,
        dead["job_id"],
        talking["job_id"],
        group.fingerprint,
    )


def _dispatched_event(api: ApiServer, tenant_id: UUID) -> tuple[UUID, UUID]:
    """Create a trigger and an event that it acted on."""
    settings = {"label": "listens", "definition": "plain", "event": "order.*"}
    kind = TriggerType.EVENT
    listener = db.run(api.conn, calls.create_trigger(kind, settings, tenant_id=tenant_id))
    event = db.run(api.conn, calls.emit_event("order.paid", {"n": 1}, tenant_id=tenant_id))
    reactions = [Reaction(listener, DeliveryOutcome.ENQUEUED, job={"definition": "plain"})]
    db.run(api.conn, calls.record_deliveries([Dispatched(event, reactions)]))
    return listener, event


def _requested_schedule(api: ApiServer, tenant_id: UUID) -> UUID:
    """Create a schedule with a requested run."""
    settings = {"label": "nightly", "definition": "plain", "cron": "@daily", "payload": {"n": 1}}
    create = calls.create_trigger(TriggerType.SCHEDULE, settings, tenant_id=tenant_id)
    created = db.run(api.conn, create)
    db.run(api.conn, calls.run_trigger(created, tenant_id=tenant_id))
    return created


def _tested_webhook(api: ApiServer, tenant_id: UUID) -> UUID:
    """Create a webhook endpoint to which a test message was sent."""
    settings = {"url": "https://example.com/", "definitions": ["plain"]}
    created = calls.create_webhook(
        generate_webhook_id(), settings, secret=bytes(61), tenant_id=tenant_id
    )
    webhook = db.run(api.conn, created)
    db.run(api.conn, calls.test_webhook(webhook, tenant_id=tenant_id))
    return webhook


def test_read_methods_return_what_the_database_returns(
    api: ApiServer, operator: Client, tenant_data: TenantData
) -> None:
    tenant_id = tenant_data.tenant_id
    cancels = OperationKind.CANCEL
    which = JobFilter(state="dead", created_after=datetime.now(UTC) - timedelta(days=1))
    operation = db.run(
        api.conn, calls.start_operation(cancels, JobFilter(tag="none"), tenant_id=tenant_id)
    )
    listener, event = _dispatched_event(api, tenant_id)
    webhook = _tested_webhook(api, tenant_id)
    billing = calls.create_connector_config(uuid4(), {"name": "billing"}, tenant_id=tenant_id)
    connector = db.run(api.conn, billing)
    schedule = _requested_schedule(api, tenant_id)
    created = WorkflowRequest("w", [{"name": "a", "definition": "plain", "delay_s": 600}])
    workflow = db.run(api.conn, calls.enqueue_workflow(created, tenant_id=tenant_id)).id
    batch = db.run(api.conn, calls.create_batch(tenant_id=tenant_id)).id
    reads: list[Call[Any]] = [
        calls.get_workflow(workflow, tenant_id=tenant_id),
        calls.list_workflows(WorkflowFilter(name="w"), tenant_id=tenant_id),
        calls.get_batch(batch, tenant_id=tenant_id),
        calls.list_batches(limit=1, tenant_id=tenant_id),
        calls.get_job(tenant_data.dead, tenant_id=tenant_id),
        calls.list_jobs(which, tenant_id=tenant_id),
        calls.list_jobs(limit=2, before=tenant_data.waiting[3], tenant_id=tenant_id),
        calls.list_notes(tenant_data.talking, tenant_id=tenant_id),
        calls.list_steps(tenant_data.talking, tenant_id=tenant_id),
        calls.explain_job(tenant_data.dead, tenant_id=tenant_id),
        calls.summarize(window_s=3600, tenant_id=tenant_id),
        calls.list_failures(tenant_id=tenant_id),
        calls.count_jobs(OperationKind.DISCARD, which, tenant_id=tenant_id),
        calls.list_operations(tenant_id=tenant_id),
        calls.get_operation(operation, tenant_id=tenant_id),
        calls.list_events(tenant_id=tenant_id),
        calls.list_events(EventFilter("order.*"), limit=1, tenant_id=tenant_id),
        calls.get_event(event, tenant_id=tenant_id),
        calls.list_event_deliveries(listener, tenant_id=tenant_id),
        calls.list_triggers(TriggerFilter(enabled=True), limit=5, tenant_id=tenant_id),
        calls.get_trigger(schedule, tenant_id=tenant_id),
        calls.list_firings(schedule, tenant_id=tenant_id),
        calls.list_firings(schedule, before=datetime.now(UTC), limit=1, tenant_id=tenant_id),
        calls.list_webhooks(tenant_id=tenant_id),
        calls.get_webhook(webhook, tenant_id=tenant_id),
        calls.list_deliveries(webhook, tenant_id=tenant_id),
        calls.list_connector_configs(tenant_id=tenant_id),
        calls.get_connector_config(connector, tenant_id=tenant_id),
        calls.list_definitions(prefix="pl"),
        calls.list_definitions(limit=1, after="mail"),
        calls.get_definition("mail", version=1),
        calls.list_queues(tenant_id=tenant_id),
        calls.list_holders("default", limit=5),
        calls.list_workers(),
        calls.list_tenants(),
        calls.find_tenant("tenant-a"),
        calls.get_statistics(step_s=3600, by="definition", tenant_id=tenant_id),
        calls.meter_tenants(LATER - timedelta(days=40), LATER),
        calls.list_audit(limit=1, tenant_id=tenant_id),
    ]
    for call in reads:
        answer = operator.run(call)
        assert answer == db.run(api.conn, call), call.function
        assert answer is not None, call.function
    keys = calls.list_api_keys(tenant_id=tenant_id)
    assert {key.id for key in operator.run(keys)} == {key.id for key in db.run(api.conn, keys)}
    changes = {name for name, route in ROUTES.items() if not route.endpoint.startswith("GET ")}
    named = {call.function for call in [*reads, keys]}
    assert named >= ROUTES.keys() - changes  # other tests cover methods that change something


def test_changes_reach_the_database(
    api: ApiServer, client: Client, operator: Client, tenant_data: TenantData
) -> None:
    first, second, third, fourth, *_ = tenant_data.waiting
    tenant_id = tenant_data.tenant_id

    def job(job_id: UUID) -> Any:
        return db.run(api.conn, calls.get_job(job_id, tenant_id=tenant_id)).job

    assert client.cancel_job(first, reason="no more") is State.CANCELED
    assert job(first).cancel_reason == "no more"
    assert client.edit_job(second, {"priority": 7, "payload": {"n": 1}}) is State.QUEUED
    assert (job(second).priority, job(second).payload) == (7, {"n": 1})
    assert client.reschedule_job(third, LATER) is State.SCHEDULED
    assert job(third).run_at == LATER
    assert client.reschedule_job(third, None) is State.QUEUED
    again = client.retry_job(first, payload={"n": 2}, attempts=2)
    assert (job(again).retry_of, job(again).payload, job(again).max_attempts) == (
        first,
        {"n": 2},
        2,
    )

    client.annotate_failure(tenant_data.fingerprint, {"note": "known"})
    assert [group.note for group in client.list_failures()] == ["known"]
    # Its canary job does not run, so the operation waits.
    started = client.start_operation(
        OperationKind.REDRIVE,
        JobFilter(state="dead", fingerprint=tenant_data.fingerprint),
        OperationOptions(reason="again", canary=1),
    )
    assert client.get_operation(started).options == {"reason": "again", "canary": 1}
    assert client.cancel_operation(started) is OperationState.CANCELED

    operator.put_definition("new", 2, {"queue": "slow", "timeout_s": 5})
    operator.override_definition("new", {"max_running": 3})
    operator.pause_definition("new")
    found = operator.get_definition("new")
    assert (found.version, found.queue, found.max_running) == (2, "slow", 3)
    assert found.paused_at is not None
    operator.resume_definition("new")
    operator.put_queue("slow", {"max_running": 9})
    operator.pause_queue("slow")
    operator.resume_queue("slow")
    [slow] = [queue for queue in operator.list_queues() if queue.name == "slow"]
    assert (slow.max_running, slow.paused_at) == (9, None)

    guest = uuid4()
    operator.put_tenant(guest, {"slug": "guest"})
    assert operator.find_tenant("guest") == guest
    operator.pause_tenant(guest)
    operator.resume_tenant(guest)
    operator.enqueue_job(JobRequest("plain", {}), tenant_id=guest)
    operation = operator.delete_tenant(guest)
    wait_until(lambda: operator.get_operation(operation, tenant_id=guest).finished_at is not None)
    assert operator.get_operation(operation, tenant_id=guest).done >= 2  # its job and its settings
    with pytest.raises(errors.TenantErased):
        operator.enqueue_job(JobRequest("plain", {}), tenant_id=guest)
    for tell in (operator.drain_worker, operator.stop_worker):
        with pytest.raises(errors.NotFound):
            tell(uuid4())
    assert state_of(api.conn, tenant_id, fourth) == "queued"


def test_a_key_is_created_rotated_and_revoked_and_shown_once(
    api: ApiServer, client: Client
) -> None:
    created = client.create_key("reports", Role.VIEWER, scopes=["jobs:read"], expires_at=LATER)
    assert created.text not in repr(created)
    with Client(api.url, created.text) as reports:
        assert created.text not in repr(reports)
        assert reports.whoami().scopes == ["jobs:read"]
        rotated = client.rotate_key(created.id)
        with Client(api.url, rotated.text) as successor:
            assert successor.list_jobs(limit=1) is not None
        client.revoke_api_key(rotated.id)
        with pytest.raises(errors.Unauthenticated):
            reports.list_jobs()


def test_an_error_has_the_class_that_the_database_would_raise(
    api: ApiServer, client: Client
) -> None:
    foreign = enqueue_one(api.conn, api.b.tenant_id, definition="plain")
    refusals: list[tuple[type[errors.JobForgeError], Callable[[], object]]] = [
        (errors.NotFound, lambda: client.get_job(foreign)),
        (errors.UnknownDefinition, lambda: client.enqueue_job(JobRequest("nothing", {}))),
        (errors.InvalidPayload, lambda: client.enqueue_job(JobRequest("mail", {"to": 3}))),
        (errors.Forbidden, client.list_tenants),
        (errors.Forbidden, lambda: client.list_jobs(tenant_id=api.b.tenant_id)),
        (errors.Conflict, lambda: client.run(calls.cancel_jobs(JobFilter()))),
        (errors.Invalid, lambda: client.edit_job(uuid4(), {"job_id": str(foreign)})),
    ]
    for kind, ask in refusals:
        with pytest.raises(kind) as caught:
            ask()
        assert type(caught.value) is kind
    with pytest.raises(errors.InvalidPayload) as faulty:
        client.enqueue_job(JobRequest("mail", {"to": 3}))
    assert faulty.value.field == "payload.to"
    with Client(api.url, "jf_wrong") as stranger, pytest.raises(errors.Unauthenticated):
        stranger.list_jobs()
    for address, key in (("jobs.example.com", "jf_any"), ("http://[", "jf_any"), (api.url, "a\nb")):
        with pytest.raises(errors.ConfigError) as caught:
            Client(address, key)
        assert "a\nb" not in str(caught.value)


def test_jobs_are_created_once_although_the_response_was_lost(
    api: ApiServer, proxy: FaultyProxy
) -> None:
    before = len(db.run(api.conn, calls.list_jobs(limit=200, tenant_id=api.b.tenant_id)))
    proxy.faults.extend(["lose", "busy"])
    with Client(proxy.url, api.b.keys["tenant_admin"]) as client:
        created = client.enqueue_jobs([JobRequest("plain", {}), JobRequest("plain", {"n": 2})])
    assert proxy.requests == ["POST /api/v1/jobs/batch"] * 3
    after = db.run(api.conn, calls.list_jobs(limit=200, tenant_id=api.b.tenant_id))
    assert len(after) == before + 2
    assert {each.job_id for each in created} <= {job.id for job in after}


def test_a_client_does_not_retry_before_the_server_allows_it() -> None:
    request = request_from_call(calls.get_job(uuid4()), ROUTES)
    patience = RetryPolicy(retries=2)
    refusal = errors.TooManyRequests(detail={"retry_after_s": 7.5})
    assert patience.next_pause_s(request, refusal) == 7.5
    too_long = errors.TooManyRequests(detail={"retry_after_s": 3600})
    assert patience.next_pause_s(request, too_long) is None
    assert RetryPolicy(retries=0).next_pause_s(request, refusal) is None


def test_a_request_that_could_act_twice_is_not_repeated(api: ApiServer, proxy: FaultyProxy) -> None:
    ended = enqueue_one(api.conn, api.b.tenant_id, definition="plain")
    with Client(proxy.url, api.b.keys["tenant_admin"]) as client:
        client.cancel_job(ended)
        proxy.faults.append("lose")
        with pytest.raises(errors.Unavailable):
            client.retry_job(ended)
    again = db.run(api.conn, calls.list_jobs(limit=200, tenant_id=api.b.tenant_id))
    assert [job.retry_of for job in again].count(ended) == 1
    assert proxy.requests.count(f"POST /api/v1/jobs/{ended}/retry") == 1


def test_a_server_that_does_not_respond_is_reported(proxy: FaultyProxy) -> None:
    proxy.always = "down"
    client = Client(proxy.url, "jf_any", retries=1)
    with client, pytest.raises(errors.Unavailable, match="is unreachable"):
        client.list_jobs()
    assert len(proxy.requests) == 2


@pytest.mark.anyio
async def test_async_code_awaits_the_same_methods(api: ApiServer) -> None:
    async with AsyncClient(api.url, api.super_key, tenant="tenant-b") as client:
        created = await client.enqueue_job(JobRequest("plain", {"n": 2**60}))
        history = await client.get_job(created.job_id)
        assert (history.job.tenant_id, history.job.payload) == (api.b.tenant_id, {"n": 2**60})
        with pytest.raises(errors.UnknownDefinition):
            await client.enqueue_job(JobRequest("nothing", {}))


@pytest.mark.anyio
async def test_a_stream_resumes_after_its_last_event(api: ApiServer) -> None:
    received: list[StreamEvent] = []

    async def listen(client: AsyncClient, after: str | None) -> None:
        async for event in client.stream(definitions=["streamed"], after=after):
            received.append(event)  # noqa: PERF401 - the list is read while it grows

    def end_one() -> UUID:
        job_id = enqueue_one(api.conn, api.b.tenant_id, definition="streamed")
        [job] = claim(api.conn, WORKER, tenants=[api.b.tenant_id], definitions=["streamed@1"])
        complete(api.conn, WORKER, [job], "succeeded")
        return job_id

    def jobs() -> list[str]:
        return [event.data["job_id"] for event in received if event.name == "attempt"]

    db.run(api.conn, calls.put_definition("streamed", 1))
    async with AsyncClient(api.url, api.b.keys["viewer"]) as client:
        listening = asyncio.create_task(listen(client, None))
        # The stream starts with a snapshot; every later change is delivered.
        await eventually(lambda: bool(received))
        first = end_one()
        await eventually(lambda: jobs() == [str(first)])
        listening.cancel()
        after = received[-1].id
        received.clear()
        second = end_one()
        listening = asyncio.create_task(listen(client, after))
        await eventually(lambda: jobs() == [str(second)])
        listening.cancel()


@pytest.mark.anyio
async def test_a_job_is_followed_until_it_has_finished(api: ApiServer) -> None:
    enqueue_one(api.conn, api.b.tenant_id, definition="plain")
    [job] = claim(api.conn, WORKER, tenants=[api.b.tenant_id], definitions=["plain@1"])
    job_id = job["job_id"]
    async with AsyncClient(api.url, api.b.keys["viewer"]) as client:
        following = client.follow_job(job_id)
        note(api.conn, WORKER, [job], "log", message="one")
        note(api.conn, WORKER, [job], "progress", done=1)
        live = [await anext(following), await anext(following)]
        complete(api.conn, WORKER, [job], "succeeded")
        live += [event async for event in following]
        with pytest.raises(errors.NotFound):
            await anext(client.follow_job(uuid4()))
    assert [event.kind for event in live] == ["log", "progress", "end"]
    assert live[-1].data == {"state": "succeeded"}
    with Client(api.url, api.b.keys["viewer"]) as replaying:
        assert list(replaying.follow_job(job_id)) == live
        assert list(replaying.follow_job(job_id, after=live[0].at)) == live[1:]
    jf = JobForge(server=api.url, key=api.super_key, tenant="tenant-b")
    assert list(jf.job_of(job_id).follow()) == live
    assert [event async for event in (await jf.ajob_of(job_id)).afollow()] == live
    await jf.aclose()


def test_a_server_that_is_down_cannot_be_followed(proxy: FaultyProxy) -> None:
    proxy.always = "down"
    with Client(proxy.url, "jf_any") as client, pytest.raises(errors.Unavailable):
        next(client.follow_job(uuid4()))


def test_an_app_creates_jobs_without_a_database(api: ApiServer) -> None:
    jf = JobForge(server=api.url, key=api.a.keys["tenant_admin"])

    @jf.job(key="remote")
    def remote(ctx: Context, n: int) -> int:
        return n + ctx.attempt

    with pytest.raises(errors.UnknownDefinition):
        remote.enqueue(1)
    for call in jf.registrations():
        db.run(api.conn, call)
    handle = remote.using(key="one", tags=["t"]).enqueue(41)
    assert handle.tenant_id == api.a.tenant_id
    assert (handle.job().payload, handle.job().tags) == ({"n": 41}, ["t"])
    many = remote.enqueue_many([remote.args(1), remote.using(priority=3).args(2)])
    assert [each.job().priority for each in many] == [0, 3]
    with pytest.raises(errors.Conflict, match="over HTTP"):
        remote.using(conn=api.conn).enqueue(1)
    with pytest.raises(errors.Conflict, match="uses a server"), jf.transaction():
        pass
    [job] = claim(api.conn, WORKER, tenants=[api.a.tenant_id], definitions=["remote@1"])
    complete(api.conn, WORKER, [job], "succeeded", result=42)
    ended = next(each for each in [handle, *many] if each.id == job["job_id"])
    assert ended.result(timeout=10) == 42
    jf.close()


def test_an_app_changes_jobs_by_id_without_a_database(api: ApiServer) -> None:
    jf = JobForge(server=api.url, key=api.b.keys["tenant_admin"])
    job_id = enqueue_one(api.conn, api.b.tenant_id, definition="plain")
    handle = jf.job_of(job_id)
    assert handle.reschedule(LATER) is State.SCHEDULED
    assert handle.explain()[0].code == "scheduled"
    assert handle.cancel("not now") is State.CANCELED
    again = handle.retry()
    assert (again.id != job_id, again.job().state) == (True, State.QUEUED)
    assert (again.cancel(), again.logs()) == (State.CANCELED, [])
    with pytest.raises(errors.NotFound):
        jf.job_of(uuid4()).cancel()
    jf.close()


@pytest.mark.anyio
async def test_an_operators_app_names_the_tenant(api: ApiServer) -> None:
    jf = JobForge(server=api.url, key=api.super_key)

    @jf.job
    def operated(n: int) -> int:
        return n

    await jf.aregister()
    with pytest.raises(errors.TenantRequired):
        await operated.aenqueue(1)
    handle = await operated.using(tenant="tenant-b").aenqueue(1)
    assert handle.tenant_id == api.b.tenant_id
    assert (await handle.ajob()).definition == "operated"
    await jf.aclose()


def test_the_examples_of_the_guide_run(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parents[2] / "docs" / "http-client.md"
    text = page.read_text(encoding="utf-8").replace("https://jobs.example.com", api.url)
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("JOBFORGE_KEY", api.b.keys["tenant_admin"])
    db.run(api.conn, calls.put_definition("send_welcome", 1, {"queue": "mail"}))
    names: dict[str, Any] = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)  # noqa: S102 - the test runs this code
    asyncio.run(names["follow"]())
    assert len(blocks) == 4
    assert names["handle"].job().payload == {"to": "ada@example.com", "name": "Ada"}
    names["handle"].cancel()
    names["print_job"](names["handle"].id)
    assert "end {'state': 'canceled'}" in capsys.readouterr().out
    names["jf"].close()


def test_an_app_takes_a_server_or_a_database_but_not_both() -> None:
    with pytest.raises(errors.ConfigError):
        JobForge("postgresql://db.example.com/app", server="https://jobs.example.com")
