"""The test kit in use: its assertions, its drains, and its clock."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg  # type: ignore[import-untyped] # it has no types
import psycopg
import pytest
import sqlalchemy
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import create_async_engine

from jobforge import Cancel, Context, Dead, JobForge, Retry, Snooze, calls, db
from jobforge.embedded import PostgresServer
from jobforge.errors import ConfigError, Denied, Invalid, InvalidPayload, NotFound
from jobforge.sdk.definition_settings import Rate
from jobforge.testing import Kit, drain
from jobforge.testing.cluster import Postgres
from jobforge.testing.kit import open_kit
from jobforge.types.jobs import Outcome, State
from jobforge.types.triggers import TriggerType

jf = JobForge(database_url="postgresql://nobody@127.0.0.1:1/nowhere")
seen: list[tuple[str, int]] = []


class Order(BaseModel):
    number: int
    rush: bool = False


@jf.job(queue="mail")
def send(to: str, subject: str = "hello") -> str:
    seen.append((to, threading.get_ident()))
    return f"{subject} {to}"


@jf.job(queue="mail")
def ship(order: Order) -> int:
    return order.number


@jf.job(isolation="inline")
async def fan_out(ctx: Context, to: list[str]) -> None:
    await asyncio.sleep(0)
    for each in to:
        await send.aenqueue(each)
    await ctx.progress(len(to), len(to))


@jf.job
def enqueue_one(to: str) -> None:
    send.enqueue(to)


@jf.job(retry=Retry(max_attempts=3, base=60))
def flaky(error: str | None = None) -> None:
    if error:
        raise OSError(error)


@jf.job
def decide(how: str) -> None:
    signals = {"cancel": Cancel("no need"), "dead": Dead("no use"), "snooze": Snooze(3600)}
    raise signals[how]


@jf.job
def confide(ctx: Context) -> str:
    ctx.log.info("here", depth=1)
    ctx.emit("found", {"what": "gold"})
    return ctx.secret("place")


@pytest.fixture(scope="session")
def jobforge_postgres(server: PostgresServer) -> Postgres:
    """Use this run's server instead of another one."""
    return Postgres(server.url(), is_durable=False)


@pytest.fixture
def acme(jf_test: Kit) -> UUID:
    """Return the tenant of most tests, with the app in use."""
    seen.clear()
    jf_test.use(jf)
    return jf_test.tenant("acme")


@pytest.fixture
def ambient(acme: UUID) -> Iterator[None]:
    with jf.tenant(acme):
        yield


def test_a_job_is_found_by_each_of_its_properties(jf_test: Kit, acme: UUID) -> None:
    send.using(tenant="acme", key="k").enqueue("ada", subject="hi")
    jf_test.assert_enqueued(send)
    jf_test.assert_enqueued("send")
    jf_test.assert_enqueued(send, tenant="acme")
    jf_test.assert_enqueued(send, tenant=acme)
    jf_test.assert_enqueued(send, queue="mail")
    jf_test.assert_enqueued(send, key="k")
    jf_test.assert_enqueued(send, to="ada")
    (job,) = jf_test.assert_enqueued(send, count=1, payload={"subject": "hi"})
    assert job.state is State.QUEUED


@pytest.mark.usefixtures("ambient")
def test_a_job_that_differs_in_one_property_is_not_found(jf_test: Kit) -> None:
    send.using(key="k").enqueue("ada")
    jf_test.refute_enqueued(ship)
    jf_test.refute_enqueued(send, tenant="globex")
    jf_test.refute_enqueued(send, queue="default")
    jf_test.refute_enqueued(send, key="other")
    jf_test.refute_enqueued(send, to="bob")
    # the caller passed no value, so the payload has none
    jf_test.refute_enqueued(send, subject="hello")
    with pytest.raises(AssertionError, match="Expected no job of send"):
        jf_test.refute_enqueued(send, to="ada")


@pytest.mark.usefixtures("ambient")
def test_a_model_is_found_by_its_members(jf_test: Kit) -> None:
    ship.enqueue(Order(number=3, rush=True))
    jf_test.assert_enqueued(ship, number=3)
    jf_test.assert_enqueued(ship, order=Order(number=3, rush=True))
    jf_test.refute_enqueued(ship, number=4)


@pytest.mark.usefixtures("ambient")
def test_a_failed_assertion_lists_what_was_enqueued(jf_test: Kit) -> None:
    with pytest.raises(AssertionError, match="No jobs were enqueued"):
        jf_test.assert_enqueued(send)
    enqueue_one.enqueue("bob")
    send.using(key="k").enqueue("ada")
    with pytest.raises(AssertionError) as failure:
        jf_test.assert_enqueued(send, tenant="acme", to="bob")
    assert str(failure.value).splitlines() == [
        "Expected at least one job of send(tenant=acme, to='bob'), found 0",
        "2 jobs were enqueued:",
        "  send@1 queued tenant=acme queue=mail key=k {'to': 'ada'}",
        "  enqueue_one@1 queued tenant=acme queue=default {'to': 'bob'}",
    ]
    with pytest.raises(AssertionError, match="Expected 2 jobs of send"):
        jf_test.assert_enqueued(send, count=2)


@pytest.mark.usefixtures("ambient")
def test_a_payload_and_a_result_may_be_too_large_for_a_row(
    jf_test: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBFORGE_ARTIFACTS", str(tmp_path))
    handle = send.enqueue("x" * 600_000, subject="y" * 600_000)
    (ran,) = jf_test.drain().jobs
    assert ran.result == handle.result() == f"{'y' * 600_000} {'x' * 600_000}"
    assert len(list(tmp_path.glob("*/*/*/*.json"))) == 2


@pytest.mark.usefixtures("ambient")
def test_connector_jobs_are_enqueued_and_checked_like_others(jf_test: Kit) -> None:
    request = jf.connector("http.request")
    request.using(key="once").enqueue(url="https://example.com/", method="POST", body={"id": 5})
    payload = {"url": "https://example.com/", "method": "POST", "body": {"id": 5}}
    jf_test.assert_enqueued("connector.http.request", payload=payload, key="once")
    for wrong in ({}, {"url": ""}, {"url": "https://x.example/", "method": "CONNECT"}):
        with pytest.raises(InvalidPayload):
            request.enqueue(**wrong)
    with pytest.raises(Invalid):
        jf.connector("smtp.send")


@pytest.mark.usefixtures("ambient")
def test_jobs_still_count_as_enqueued_after_they_have_run(jf_test: Kit) -> None:
    send.enqueue("ada")
    jf_test.drain()
    (job,) = jf_test.assert_enqueued(send)
    assert job.state is State.SUCCEEDED


@pytest.mark.anyio
@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_the_url_suits_sqlalchemy_and_asyncpg(jf_test: Kit, driver: str) -> None:
    engine = create_async_engine(jf_test.url.replace("postgresql:", f"postgresql+{driver}:"))
    async with engine.connect() as conn:
        assert (await conn.execute(sqlalchemy.text("select current_user"))).scalar() == "jf_test"
    await engine.dispose()
    direct = await asyncpg.connect(jf_test.url)
    assert await direct.fetchval("select current_user") == "jf_test"
    await direct.close()
    with psycopg.connect(jf_test.worker_url) as conn_of_worker:
        assert conn_of_worker.execute("select current_user").fetchone() == ("jobforge_admin",)


def test_a_tenant_is_found_by_its_slug(jf_test: Kit, acme: UUID) -> None:
    assert jf_test.tenant_id("acme") == acme
    with pytest.raises(NotFound):
        jf_test.tenant_id("globex")


@pytest.mark.usefixtures("ambient")
def test_a_rolled_back_job_was_not_enqueued(jf_test: Kit) -> None:
    with psycopg.connect(jf_test.url) as conn:
        send.using(conn=conn).enqueue("ada")
        conn.rollback()
    jf_test.refute_enqueued(send)


@pytest.mark.usefixtures("ambient")
def test_a_drain_also_runs_jobs_that_jobs_enqueue(jf_test: Kit, acme: UUID) -> None:
    fan_out.enqueue(["ada", "bob"])
    enqueue_one.using(correlation_id="c-1").enqueue("eve")
    drained = jf_test.drain()
    assert drained.succeeded == len(drained.jobs) == 5
    assert sorted(to for to, _ in seen) == ["ada", "bob", "eve"]
    jf_test.assert_enqueued(send, tenant=acme, count=3)
    (job,) = jf_test.assert_enqueued(send, to="eve")
    assert job.correlation_id == "c-1"


@pytest.mark.usefixtures("ambient")
def test_a_sync_handler_runs_in_the_thread_of_the_test(jf_test: Kit) -> None:
    send.enqueue("ada")
    jf_test.drain()
    assert seen == [("ada", threading.get_ident())]


@pytest.mark.anyio
async def test_the_kit_works_in_async_tests(jf_test: Kit, acme: UUID) -> None:
    await fan_out.using(tenant=acme).aenqueue(["ada"])
    jf_test.assert_enqueued(fan_out)
    assert jf_test.drain().succeeded == 2
    assert jf_test.run(send, "ada") == "hello ada"


@pytest.mark.usefixtures("ambient")
def test_a_drain_runs_all_retries(jf_test: Kit) -> None:
    flaky.enqueue("boom")
    before = jf_test.now()
    drained = jf_test.drain()
    assert (drained.failed, drained.dead, drained.succeeded) == (2, 1, 0)
    assert [str(ran.exception) for ran in drained.jobs] == ["boom"] * 3
    assert [ran.job.attempt for ran in drained.jobs] == [1, 2, 3]
    assert jf_test.now() - before >= timedelta(seconds=60 + 120)


@pytest.mark.usefixtures("ambient")
def test_scheduled_jobs_run_in_the_order_of_their_times(jf_test: Kit) -> None:
    send.using(delay=timedelta(days=2)).enqueue("late")
    send.using(delay=3600).enqueue("soon")
    assert jf_test.drain(with_scheduled=False).jobs == []
    assert jf_test.drain().succeeded == 2
    assert [to for to, _ in seen] == ["soon", "late"]


@pytest.mark.usefixtures("ambient")
def test_moving_the_clock_makes_a_job_due(jf_test: Kit) -> None:
    send.using(delay=3600).enqueue("ada")
    jf_test.travel(minutes=59)
    assert jf_test.drain(with_scheduled=False).succeeded == 0
    jf_test.travel(60)
    assert jf_test.drain(with_scheduled=False).succeeded == 1
    with pytest.raises(ValueError, match="cannot move backwards"):
        jf_test.travel(-1)


@pytest.mark.usefixtures("ambient")
def test_moving_the_clock_past_a_lease_expires_it(jf_test: Kit) -> None:
    """Skipped time is not an outage, after which leases would be longer."""
    flaky.enqueue()
    assert jf_test.drain().succeeded == 1
    flaky.enqueue()
    with psycopg.connect(jf_test.worker_url) as conn:
        conn.execute(
            "select from jobforge.claim_jobs(gen_random_uuid(), array['default'], array[1])"
        )
    jf_test.travel(minutes=1)
    [ran] = jf_test.drain().jobs
    assert ran.job.attempt == 2


def test_moving_the_clock_makes_a_schedule_due(jf_test: Kit) -> None:
    app = JobForge(database_url="postgresql://nobody@127.0.0.1:1/nowhere", tenant="punctual")

    @app.job(cron="0 * * * *", payload={"day": "{{schedule.date}}"})
    def hourly(day: str) -> str:
        return day

    jf_test.use(app)
    assert jf_test.drain().jobs == []  # the tenant does not exist yet
    jf_test.tenant("punctual")
    jf_test.travel(hours=1)
    [ran] = jf_test.drain().jobs
    assert (ran.job.source, len(ran.result)) == ("schedule", len("2026-01-01"))
    assert jf_test.drain().jobs == []


def test_a_drain_runs_the_jobs_of_event_triggers(jf_test: Kit) -> None:
    app = JobForge(database_url="postgresql://nobody@127.0.0.1:1/nowhere", tenant="shop")

    @app.job(on_event="order.paid", isolation="inline")
    async def book(order: int) -> None:
        await app.aemit("order.booked", {"order": order})

    @app.job(on_event="order.booked")
    def report(order: int) -> int:
        return order

    jf_test.use(app)
    jf_test.tenant("shop")
    app.emit("order.paid", {"order": 6})
    booked, reported = jf_test.drain().jobs
    assert (booked.job.definition, reported.job.definition) == ("book", "report")
    assert (reported.job.source, reported.result) == ("event", 6)
    assert jf_test.drain().jobs == []


@pytest.mark.usefixtures("ambient")
def test_a_drain_stops_at_its_limit(jf_test: Kit) -> None:
    send.enqueue_many([send.args(str(number)) for number in range(3)])
    assert jf_test.drain(limit=2).succeeded == 2
    assert jf_test.drain().succeeded == 1


@pytest.mark.usefixtures("ambient")
def test_an_endless_drain_fails_and_names_the_job(
    jf_test: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "MAX_ATTEMPTS", 5)
    decide.enqueue("snooze")
    with pytest.raises(AssertionError, match="the last ones were of decide"):
        jf_test.drain()


@pytest.mark.usefixtures("ambient")
def test_errors_of_handlers_are_raised_on_demand(jf_test: Kit) -> None:
    decide.enqueue("dead")
    flaky.enqueue("boom")
    with pytest.raises(OSError, match="boom"):
        jf_test.drain(raise_errors=True)
    (job,) = jf_test.assert_enqueued(flaky)
    assert job.state is State.SCHEDULED  # the attempt was recorded before


@pytest.mark.usefixtures("ambient")
def test_each_attempt_is_counted_once_by_the_outcome_of_its_job(jf_test: Kit) -> None:
    for how in ("cancel", "dead", "snooze"):
        decide.enqueue(how)
    send.enqueue("ada")
    drained = jf_test.drain(with_scheduled=False)
    assert (drained.canceled, drained.dead, drained.snoozed, drained.succeeded) == (1, 1, 1, 1)
    assert drained.failed == 0
    assert {ran.outcome for ran in drained.jobs} == {
        *(Outcome.CANCELED, Outcome.FAILED, Outcome.SNOOZED, Outcome.SUCCEEDED)
    }
    (result,) = [ran.result for ran in drained.jobs if ran.job.definition == "send"]
    assert result == "hello ada"


@pytest.mark.usefixtures("ambient")
def test_a_rate_limit_delays_but_does_not_stop_a_drain(jf_test: Kit) -> None:
    own = JobForge()

    @own.job(rate=Rate(2, period_s=60))
    def rare() -> None: ...

    jf_test.use(own)
    rare.enqueue_many([rare.args() for _ in range(5)])
    before = jf_test.now()
    assert jf_test.drain().succeeded == 5
    assert jf_test.now() - before >= timedelta(seconds=90)


@pytest.mark.usefixtures("ambient")
def test_a_drain_dispatches_events_to_triggers_and_to_waiting_jobs(
    jf_test: Kit, acme: UUID
) -> None:
    own = JobForge()

    @own.job(isolation="inline")
    async def book(number: int) -> int:
        await own.aemit("order.booked", {"number": number})
        return number

    @own.job
    def deliver(ctx: Context, number: int) -> str:
        event = ctx.wait_for_event("order.booked", {"number": number}, timeout=3600)
        return str(event.data["number"])

    jf_test.use(own)
    settings = {
        "label": "Book paid orders",
        "event": "order.paid",
        "definition": "book",
        "payload": {"number": "{{event.number}}"},
    }
    with db.connect(jf_test.worker_url) as conn:
        db.run(conn, calls.create_trigger(TriggerType.EVENT, settings, tenant_id=acme))
    before = jf_test.now()
    deliver.enqueue(5)
    own.emit("order.paid", {"number": 5})
    drained = jf_test.drain(raise_errors=True)
    results = {ran.job.definition: ran.result for ran in drained.jobs}
    assert results == {"book": 5, "deliver": "5"}
    assert jf_test.now() - before < timedelta(hours=1), "the wait did not time out"
    assert jf_test.drain().jobs == [], "each event is dispatched once"


@pytest.mark.usefixtures("ambient")
def test_a_drain_runs_allowed_commands(jf_test: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    own = JobForge()
    shell = own.command("shell", argv=["sh", "-c", "exit $1", "sh", "{code}"])
    missing = own.command("missing", argv=["no-such-program"])
    greeting = own.command("greeting", argv=["printf", "hi"], returns_stdout=True)
    jf_test.use(own)
    for code in ("0", "3"):
        shell.using(max_attempts=1).enqueue(code=code)
    missing.enqueue()
    greeting.enqueue()
    assert jf_test.drain().jobs == []
    monkeypatch.setenv("JOBFORGE_ALLOWED_COMMANDS", "shell,missing,greeting")
    drained = jf_test.drain()
    assert (drained.succeeded, drained.dead) == (2, 2)
    results = {ran.job.definition: ran.result for ran in drained.jobs}
    assert results["greeting"] == {"exit_code": 0, "stdout": "hi"}
    with pytest.raises(Invalid, match="no handler"):
        jf_test.run(shell, code="0")


@pytest.mark.usefixtures("ambient")
def test_a_result_that_json_cannot_hold_is_an_error_of_the_handler(jf_test: Kit) -> None:
    own = JobForge()

    @own.job
    def strange() -> Any:
        return object()

    jf_test.use(own)
    strange.enqueue()
    with pytest.raises(Invalid, match="result"):
        jf_test.drain(raise_errors=True)
    (job,) = jf_test.assert_enqueued(strange)
    assert job.state is State.DEAD


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.usefixtures("ambient")
def test_a_job_enqueues_only_for_its_own_tenant(jf_test: Kit, *, is_named: bool) -> None:
    own = JobForge()

    @own.job
    def stray(tenant: str) -> None:
        if is_named:
            send.using(tenant=tenant).enqueue("ada")
        with own.tenant(tenant):
            send.enqueue("ada")

    jf_test.use(own)
    stray.enqueue(str(jf_test.tenant("globex")))
    with pytest.raises(Denied, match="own tenant"):
        jf_test.drain(raise_errors=True)
    jf_test.refute_enqueued(send)


@pytest.mark.usefixtures("ambient")
def test_the_next_attempts_fail_on_request(jf_test: Kit) -> None:
    jf_test.fail_next(send, OSError("planned"), times=2)
    send.enqueue("ada")
    drained = jf_test.drain()
    assert (drained.failed, drained.succeeded) == (2, 1)
    assert len(seen) == 1
    jf_test.fail_next(send)
    with pytest.raises(RuntimeError, match="The test made"):
        jf_test.run(send, "ada")
    assert jf_test.run(send, "ada") == "hello ada"


@pytest.mark.usefixtures("acme")
def test_a_run_returns_the_result_and_records_the_notes(jf_test: Kit) -> None:
    jf_test.secrets["place"] = "under the tree"
    assert jf_test.run(confide) == "under the tree"
    assert jf_test.notes.logs == [{"level": "info", "message": "here", "depth": 1}]
    assert jf_test.notes.events == [{"name": "found", "data": {"what": "gold"}}]
    jf_test.run(fan_out, to=[])
    assert jf_test.notes.progress == [{"done": 0, "total": 0}]
    assert jf_test.enqueued() == []


@pytest.mark.usefixtures("acme")
def test_a_run_validates_arguments_like_an_enqueue(jf_test: Kit) -> None:
    with pytest.raises(InvalidPayload, match="to"):
        jf_test.run(send, to=3)  # type: ignore[arg-type]
    assert jf_test.run(ship, Order(number=3)) == 3


@pytest.mark.usefixtures("acme")
def test_a_missing_secret_is_not_found(jf_test: Kit) -> None:
    with pytest.raises(NotFound, match="place"):
        jf_test.run(confide)


@pytest.mark.usefixtures("ambient")
def test_notes_of_a_drained_job_are_recorded_with_it(jf_test: Kit) -> None:
    jf_test.secrets["place"] = "under the tree"
    handle = confide.enqueue()
    assert jf_test.drain().succeeded == 1
    assert handle.result(0) == "under the tree"
    assert jf_test.notes.events == [{"name": "found", "data": {"what": "gold"}}]


@pytest.mark.usefixtures("acme")
def test_row_security_applies_to_the_app(jf_test: Kit) -> None:
    send.using(tenant="acme").enqueue("ada")
    with psycopg.connect(jf_test.url) as conn:
        assert conn.execute("select from jobforge.jobs").rowcount == 0
        conn.execute("create table users (name text)")


def test_an_app_gets_its_own_connections_back(server: PostgresServer) -> None:
    postgres = Postgres(server.url(), is_durable=False)
    app = JobForge()

    @app.job
    def job() -> None: ...

    with open_kit(postgres) as outer:
        outer.use(app)
        tenant = outer.tenant("acme")
        with open_kit(postgres) as inner:
            inner.use(app)
            job.using(tenant=inner.tenant("acme")).enqueue()
            inner.assert_enqueued(job)
        outer.refute_enqueued(job)
        job.using(tenant=tenant).enqueue()
        outer.assert_enqueued(job)


def test_a_drain_without_an_app_says_how_to_specify_one(jf_test: Kit) -> None:
    with pytest.raises(ConfigError) as failure:
        jf_test.drain()
    assert "jobforge_app" in str(failure.value.hint)
