"""The worker with a real database: what it claims, how it runs jobs, and what it records."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from cluster import Connection, Database
from integration.call_setup import TENANT_A
from integration.worker_harness import WorkerHarness, eventually

from jobforge import Cancel, Context, Dead, Retry, Snooze, calls, db
from jobforge.errors import ConfigError
from jobforge.sdk.worker_requests import (
    AddToBatch,
    CreateBatch,
    EnqueueJobs,
    EnqueueWorkflow,
)
from jobforge.types.jobs import JobRequest, Outcome, State
from jobforge.types.workflows import BatchRequest, WorkflowRequest

pytestmark = pytest.mark.anyio


@pytest.fixture
def harness(database: Database, conn: Connection) -> WorkerHarness:
    return WorkerHarness(database, conn)


async def test_a_job_succeeds_and_its_result_is_stored(harness: WorkerHarness) -> None:
    @harness.app.job(isolation="inline")
    async def double(number: int) -> int:
        return number * 2

    harness.register()
    job_id = harness.enqueue("double", {"number": 21})
    async with harness.running_worker():
        history = await harness.wait_for_state(job_id)
    assert history.job.result == 42
    assert [attempt.outcome for attempt in history.attempts] == [Outcome.SUCCEEDED]


@pytest.mark.attack("payloads")
async def test_a_payload_that_cannot_be_sent_fails_only_its_own_job(
    harness: WorkerHarness, conn: Connection
) -> None:
    @harness.app.job(isolation="inline")
    async def double(number: int) -> int:
        return number * 2

    harness.register()
    bad, good = (harness.enqueue("double", {"number": number}) for number in (1, 21))
    with conn.transaction():
        conn.execute("set local session_replication_role = replica")  # as a restore does
        numbers = "[" + ",".join(["1e131071"] * 9000) + "]"
        conn.execute(
            "update jobforge.jobs set payload = jsonb_build_object('number', %s::jsonb)"
            " where id = %s",
            [numbers, bad],
        )
    async with harness.running_worker():
        assert (await harness.wait_for_state(good)).job.result == 42
        buried = await harness.wait_for_state(bad, State.DEAD)
    assert buried.job.error is not None
    assert buried.job.error["type"] == "UnreadablePayload"
    assert buried.job.payload == {"$unreadable": "the value was too long as JSON text"}


@pytest.mark.parametrize(
    ("error", "state", "outcome", "attempt"),
    [
        (ValueError("bad"), State.SCHEDULED, Outcome.FAILED, 1),
        (Retry(after=3600), State.SCHEDULED, Outcome.FAILED, 1),
        (Snooze(timedelta(hours=1)), State.SCHEDULED, Outcome.SNOOZED, 0),
        (Dead("hopeless"), State.DEAD, Outcome.FAILED, 1),
        (Cancel("enough"), State.CANCELED, Outcome.CANCELED, 1),
    ],
)
async def test_the_exception_of_a_handler_is_recorded(
    harness: WorkerHarness, error: Exception, state: State, outcome: Outcome, attempt: int
) -> None:
    @harness.app.job(isolation="inline", retry=Retry(base=3600))
    async def fail() -> None:
        raise error

    harness.register()
    job_id = harness.enqueue("fail")
    async with harness.running_worker():
        history = await harness.wait_for_state(job_id, state)
    assert [each.outcome for each in history.attempts] == [outcome]
    assert history.job.attempt == attempt


async def test_a_job_is_dead_after_its_last_attempt(harness: WorkerHarness) -> None:
    @harness.app.job(isolation="inline", retry=Retry(max_attempts=3))
    async def fail() -> None:
        raise Retry(after=0)

    harness.register()
    job_id = harness.enqueue("fail")
    async with harness.running_worker(poll_s=0.05):
        await harness.wait_for_state(job_id, State.DEAD)
    assert harness.outcomes(job_id) == [Outcome.FAILED] * 3


async def test_an_invalid_payload_is_dead_without_a_retry(harness: WorkerHarness) -> None:
    @harness.app.job(isolation="inline")
    async def double(number: int) -> int:
        return number * 2

    harness.register()
    job_id = harness.enqueue("double", {"number": "many"})
    async with harness.running_worker():
        history = await harness.wait_for_state(job_id, State.DEAD)
    assert [attempt.outcome for attempt in history.attempts] == [Outcome.FAILED]
    assert history.job.error is not None
    assert history.job.error["type"] == "InvalidPayload"


async def test_a_result_that_json_cannot_hold_is_dead_without_a_retry(
    harness: WorkerHarness,
) -> None:
    @harness.app.job(isolation="inline")
    async def answer() -> Any:
        return object()

    harness.register()
    job_id = harness.enqueue("answer")
    async with harness.running_worker():
        history = await harness.wait_for_state(job_id, State.DEAD)
    assert history.job.error is not None
    assert history.job.error["type"] == "InvalidResult"


async def test_a_job_is_stopped_after_its_timeout(harness: WorkerHarness) -> None:
    @harness.app.job(isolation="inline", timeout=1, retry=1)
    async def wait() -> None:
        await asyncio.Event().wait()

    harness.register()
    job_id = harness.enqueue("wait")
    async with harness.running_worker():
        await harness.wait_for_state(job_id, State.DEAD)
    assert harness.outcomes(job_id) == [Outcome.TIMED_OUT]


async def test_a_worker_runs_at_most_as_many_jobs_as_it_has_slots(
    harness: WorkerHarness, conn: Connection
) -> None:
    may_end = asyncio.Event()
    running, most = 0, 0

    @harness.app.job(isolation="inline")
    async def wait() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await may_end.wait()
        running -= 1

    harness.register()
    jobs = [
        harness.enqueue("wait", queue=queue) for queue in ("default", "other") for _ in range(6)
    ]

    def claimed() -> dict[str, int]:
        rows = conn.execute(
            "select queue, count(*) as n from jobforge.jobs where state = 'running' group by queue"
        )
        return {row["queue"]: row["n"] for row in rows}

    async with harness.running_worker(queues={"default": 2, "other": 3}, poll_s=0.01):
        await eventually(lambda: running == 5)
        assert claimed() == {"default": 2, "other": 3}
        may_end.set()
        for job_id in jobs:
            await harness.wait_for_state(job_id)
    assert most == 5


async def test_jobs_that_end_during_a_settle_are_settled_together_next(
    harness: WorkerHarness, conn: Connection
) -> None:
    gates = {"first": asyncio.Event(), "others": asyncio.Event()}
    finished = 0

    @harness.app.job(isolation="inline")
    async def wait(gate: str) -> None:
        nonlocal finished
        await gates[gate].wait()
        finished += 1

    harness.register()
    first = harness.enqueue("wait", {"gate": "first"})
    others = [harness.enqueue("wait", {"gate": "others"}) for _ in range(5)]
    hold_settles(conn)
    async with harness.running_worker(heartbeat_s=30, lease_s=60):
        await eventually(
            lambda: all(harness.state(job) is State.RUNNING for job in [first, *others])
        )
        gates["first"].set()
        await eventually(lambda: _is_settling(conn))
        gates["others"].set()
        await eventually(lambda: finished == 6)
        conn.execute("delete from public.gate")
        for job_id in [first, *others]:
            await harness.wait_for_state(job_id)
    rows = conn.execute("select array_agg(job_id) as jobs from jobforge.all_attempts group by txid")
    assert sorted(len(row["jobs"]) for row in rows) == [1, 5]


def hold_settles(conn: Connection) -> None:
    """Make settles wait in the database while public.gate has a row. No lock can delay them."""
    conn.execute(
        """
        create table public.gate as select;
        grant select on public.gate to public;
        create function public.wait_at_gate() returns trigger language plpgsql as $$
        begin
            while exists (select from public.gate) loop
                perform pg_sleep(0.005);
            end loop;
            return new;
        end $$;
        create trigger gate before insert on jobforge.finished_jobs
            for each row execute function public.wait_at_gate();
        """
    )


def _is_settling(conn: Connection) -> bool:
    waiting = conn.execute(
        """
        select from pg_stat_activity
         where datname = current_database() and wait_event = 'PgSleep'
        """
    )
    return waiting.rowcount > 0


async def test_notes_of_a_job_are_stored_in_order_before_its_end(harness: WorkerHarness) -> None:
    @harness.app.job(isolation="inline")
    async def talk(ctx: Context) -> None:
        for number in range(3):
            await ctx.progress(number, 3)
        ctx.log.info("hello")
        await ctx.emit("sent", {"number": 1})

    harness.register()
    job_id = harness.enqueue("talk")
    async with harness.running_worker():
        await harness.wait_for_state(job_id)
    notes = db.run(harness.conn, calls.list_notes(job_id, tenant_id=TENANT_A))
    # Of several progress notes in one batch only the latest is stored.
    assert [note.kind for note in notes] == ["progress", "log", "event"]
    assert notes[0].data["done"] == 2


async def test_a_job_enqueued_by_a_running_one_has_its_tenant_and_correlation(
    harness: WorkerHarness,
) -> None:
    @harness.app.job(isolation="inline")
    async def work() -> None:
        return None

    harness.register()
    parent = harness.enqueue("work", correlation_id="order-1", traceparent="00-ab-cd-01")
    async with harness.running_worker(queues={"nobody": 1}, login="admin_login") as worker:
        claim = calls.claim_jobs(worker.worker_id, {"default": 1})
        [claimed] = db.run(harness.conn, claim)
        assert claimed.job_id == parent
        request = EnqueueJobs([JobRequest("work")])
        [enqueued] = await worker.job_services.request(claimed, request)
    child = harness.history(enqueued.job_id).job
    assert (child.tenant_id, child.correlation_id) == (TENANT_A, "order-1")
    assert child.traceparent == "00-ab-cd-01"


async def test_a_job_enqueued_by_an_inline_job_has_its_correlation_and_trace(
    harness: WorkerHarness,
) -> None:
    @harness.app.job(isolation="inline")
    async def child(number: int) -> int:
        return number

    @harness.app.job(isolation="inline")
    async def parent() -> list[str]:
        alone = await child.aenqueue(1)
        alike = await child.aenqueue_many([child.args(2), child.args(3)])
        return [str(each.id) for each in (alone, *alike)]

    harness.register()
    job_id = harness.enqueue("parent", correlation_id="order-1", traceparent="00-ab-cd-01")
    async with harness.running_worker(login="admin_login"):
        created = [UUID(each) for each in (await harness.wait_for_state(job_id)).job.result]
        children = [harness.history(each).job for each in created]
    assert {(each.correlation_id, each.traceparent) for each in children} == {
        ("order-1", "00-ab-cd-01")
    }


async def test_jobs_created_by_an_inline_job_have_its_correlation_and_trace(
    harness: WorkerHarness,
) -> None:
    @harness.app.job(isolation="inline")
    async def child(number: int) -> int:
        return number

    @harness.app.job(isolation="inline")
    async def parent() -> None:
        async with harness.app.workflow("outer") as outer:
            child.node(1)
            with outer.workflow("inner"):
                child.node(2)
        async with harness.app.batch(on_success=child.args(3), open=True) as batch:
            await batch.aadd(child.args(4))
        async with harness.app.batch(correlation_id="other") as other:
            other.add(child.args(5))

    harness.register()
    job_id = harness.enqueue("parent", correlation_id="order-1", traceparent="00-ab-cd-01")
    async with harness.running_worker(login="admin_login"):
        await harness.wait_for_state(job_id)
        await eventually(lambda: len(_origins(harness)) == 5)
    trace = "00-ab-cd-01"
    assert _origins(harness) == [
        *((number, "order-1", trace) for number in (1, 2, 3, 4)),
        (5, "other", trace),
    ]


async def test_jobs_that_a_worker_creates_for_a_job_have_its_correlation_and_trace(
    harness: WorkerHarness,
) -> None:
    @harness.app.job(isolation="inline")
    async def child(number: int) -> int:
        return number

    def request(number: int) -> JobRequest:
        return JobRequest("child", {"number": number})

    def node(name: str, number: int) -> dict[str, Any]:
        return {"name": name, **request(number).to_json()}

    harness.register()
    harness.enqueue("child", {"number": 0}, correlation_id="order-1", traceparent="00-ab-cd-01")
    async with harness.running_worker(queues={"nobody": 1}, login="admin_login") as worker:
        [claimed] = db.run(harness.conn, calls.claim_jobs(worker.worker_id, {"default": 1}))
        ask = partial(worker.job_services.request, claimed)
        inner = {"name": "inner", "workflow": {"name": "inner", "nodes": [node("b", 2)]}}
        await ask(EnqueueWorkflow(WorkflowRequest("w", [node("a", 1), inner])))
        created = await ask(CreateBatch(BatchRequest(open=True), [request(3)]))
        await ask(AddToBatch(created.id, [request(4)]))
    assert _origins(harness)[1:] == [(number, "order-1", "00-ab-cd-01") for number in (1, 2, 3, 4)]


def _origins(harness: WorkerHarness) -> list[tuple[int, str | None, str | None]]:
    """Return number, correlation and trace of the jobs `child`."""
    rows = harness.conn.execute(
        """
        select (payload ->> 'number')::integer as number, correlation_id, traceparent
          from jobforge.all_jobs where definition = 'child' order by 1
        """
    ).fetchall()
    return [(row["number"], row["correlation_id"], row["traceparent"]) for row in rows]


async def test_a_definition_without_a_runner_is_not_served(harness: WorkerHarness) -> None:
    @harness.app.job
    def isolated() -> None:
        return None

    with pytest.raises(ConfigError):
        async with harness.running_worker():
            pass

    @harness.app.job(isolation="inline")
    async def inline() -> None:
        return None

    harness.register()
    left, done = harness.enqueue("isolated"), harness.enqueue("inline")
    async with harness.running_worker():
        await harness.wait_for_state(done)
    assert harness.state(left) in {State.QUEUED, State.SCHEDULED}


@pytest.mark.parametrize(
    "options",
    [
        {"queues": {}},
        {"queues": {"default": 0}},
        {"queues": {f"q{number}": 1 for number in range(101)}},
        {"lease_s": 10, "heartbeat_s": 6},
        {"lease_s": 7200},
    ],
)
async def test_invalid_settings_are_refused(
    harness: WorkerHarness, options: dict[str, Any]
) -> None:
    @harness.app.job(isolation="inline")
    async def work() -> None:
        return None

    with pytest.raises(ConfigError):
        async with harness.running_worker(**options):
            pass


async def test_a_debug_log_shows_notes_and_ends_of_jobs(
    harness: WorkerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="jobforge")

    @harness.app.job(isolation="inline")
    async def talk(ctx: Context) -> None:
        ctx.log.info("hello", level="mine", event="mine", job_id="mine")

    harness.register()
    job_id = harness.enqueue("talk")
    async with harness.running_worker():
        await harness.wait_for_state(job_id)
        await eventually(lambda: "job.finished" in caplog.text)
    assert "job.started" in caplog.text
    assert "job.log" in caplog.text
    assert str(job_id) in caplog.text


async def test_a_worker_stopped_before_it_ran_does_nothing(
    harness: WorkerHarness, conn: Connection
) -> None:
    @harness.app.job(isolation="inline")
    async def work() -> None:
        return None

    async with db.Database(harness.database.url_as("worker_login")) as pool:
        worker = harness.worker(pool)
        worker.stop()
        await worker.run()
    assert conn.execute("select from jobforge.workers").rowcount == 0
