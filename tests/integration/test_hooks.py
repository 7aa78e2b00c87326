"""Hooks (R19): before the handler in every attempt, and once after a job ends for any reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Clock, Connection, Database, wait_until
from integration.killable_workers import KillableWorkers, open_killable_workers

from jobforge import Cancel, Context, JobForge, Retry, Snooze, calls, db
from jobforge.embedded import PostgresServer
from jobforge.testing import Kit
from jobforge.testing.cluster import Postgres
from jobforge.types.jobs import State

jf = JobForge()
noted: list[tuple[object, ...]] = []


@jf.job(retry=Retry(max_attempts=3))
def work(ctx: Context, end: str = "well") -> int:
    noted.append(("handler", ctx.attempt))
    if end == "cancel":
        raise Cancel("no need")
    if end == "snooze" and len(noted) < 3:
        raise Snooze(60)
    if end == "badly" or (end == "late" and ctx.attempt < 3):
        raise OSError("no answer")
    return 42


@work.on_start
def begin(ctx: Context) -> None:
    noted.append(("start", ctx.attempt))


@work.on_success
async def rejoice(ctx: Context, result: int) -> None:
    noted.append(("success", result, ctx.job_id))


@work.on_fail
def mourn(_: Context, error: dict[str, str]) -> None:
    noted.append(("fail", error["type"], error["message"]))


@work.on_end
def close(_: Context, state: State) -> None:
    noted.append(("end", state))


@jf.job
def plain() -> None: ...


@pytest.fixture(scope="session")
def jobforge_postgres(server: PostgresServer) -> Postgres:
    return Postgres(server.url(), is_durable=False)


@pytest.fixture
def kit(jf_test: Kit) -> Iterator[Kit]:
    noted.clear()
    jf_test.use(jf)
    with jf.tenant(jf_test.tenant("acme")):
        yield jf_test


def _hook_calls(*kinds: str) -> list[tuple[object, ...]]:
    return [each for each in noted if each[0] in kinds]


def test_on_start_runs_in_every_attempt_before_the_handler(kit: Kit) -> None:
    work.enqueue("late")
    assert kit.drain().succeeded == 1
    assert _hook_calls("start", "handler") == [
        (kind, attempt) for attempt in (1, 2, 3) for kind in ("start", "handler")
    ]


def test_on_success_runs_once_with_the_result(kit: Kit) -> None:
    handle = work.enqueue("late")
    kit.drain()
    assert _hook_calls("success", "fail", "end") == [
        ("success", 42, handle.id),
        ("end", State.SUCCEEDED),
    ]


def test_on_fail_runs_once_with_the_error_when_a_job_is_dead(kit: Kit) -> None:
    work.enqueue("badly")
    assert kit.drain().dead == 1
    assert _hook_calls("success", "fail", "end") == [
        ("fail", "OSError", "no answer"),
        ("end", State.DEAD),
    ]


def test_a_handler_that_cancels_itself_runs_only_on_end(kit: Kit) -> None:
    work.enqueue("cancel")
    assert kit.drain().canceled == 1
    assert _hook_calls("success", "fail", "end") == [("end", State.CANCELED)]


def test_a_job_canceled_before_its_start_runs_on_end(kit: Kit) -> None:
    handle = work.using(delay=3600).enqueue()
    with db.connect(kit.url) as conn:
        db.run(conn, calls.cancel_job(handle.id, tenant_id=handle.tenant_id))
    kit.drain()
    assert noted == [("end", State.CANCELED)]


def test_an_expired_job_runs_on_end(kit: Kit) -> None:
    work.using(expires_in=60).enqueue()
    kit.travel(61)
    kit.drain()
    assert noted == [("end", State.CANCELED)]


def test_a_snooze_runs_no_end_hook(kit: Kit) -> None:
    work.enqueue("snooze")
    kit.drain(limit=1)
    assert _hook_calls("success", "fail", "end") == []
    kit.drain()
    assert _hook_calls("end") == [("end", State.SUCCEEDED)]


def test_a_retried_job_runs_its_hooks_at_its_second_end_too(kit: Kit) -> None:
    handle = work.enqueue("badly")
    kit.drain()
    with db.connect(kit.url) as conn:
        db.run(conn, calls.retry_job(handle.id, attempts=1, tenant_id=handle.tenant_id))
    kit.drain()
    assert _hook_calls("end") == [("end", State.DEAD)] * 2


def test_hooks_of_the_app_run_for_every_job_after_those_of_the_job(jf_test: Kit) -> None:
    app = JobForge()
    order: list[str] = []

    @app.job
    def hooked() -> None: ...

    @app.job
    def bare() -> None: ...

    hooked.on_end(lambda *_: order.append("its own"))
    app.on_end(lambda *_: order.append("the app's"))
    app.on_start(lambda _: order.append("start"))
    jf_test.use(app)
    with app.tenant(jf_test.tenant("acme")):
        hooked.enqueue()
        jf_test.drain()
        assert order == ["start", "its own", "the app's"]
        bare.enqueue()
        jf_test.drain()
    assert order == ["start", "its own", "the app's", "start", "the app's"]


def test_hooks_have_no_hooks(kit: Kit) -> None:
    work.enqueue()
    drained = kit.drain()
    assert len(drained.hooks) == 1
    assert len(kit.enqueued()) == 2


def test_a_definition_without_hooks_creates_no_hook_job(kit: Kit) -> None:
    plain.enqueue()
    kit.drain()
    assert [job.definition for job in kit.enqueued()] == ["plain"]


def test_a_failed_hook_is_retried_and_does_not_change_the_job(jf_test: Kit) -> None:
    app = JobForge()
    calls_of_hook: list[int] = []

    @app.job
    def job() -> None: ...

    @job.on_success
    def shaky(_: Context, __: None) -> None:
        calls_of_hook.append(1)
        if len(calls_of_hook) == 1:
            raise OSError("not yet")

    jf_test.use(app)
    with app.tenant(jf_test.tenant("acme")):
        job.enqueue()
    drained = jf_test.drain()
    assert drained.succeeded == 1
    assert [ran.state for ran in drained.hooks] == [State.SCHEDULED, State.SUCCEEDED]


def test_a_failed_on_start_does_not_fail_the_attempt(jf_test: Kit) -> None:
    app = JobForge()

    @app.job
    def job() -> None: ...

    @job.on_start
    def broken(_: Context) -> None:
        raise OSError("never")

    jf_test.use(app)
    with app.tenant(jf_test.tenant("acme")):
        job.enqueue()
    assert jf_test.drain().succeeded == 1


@pytest.fixture
def killable(
    database: Database, conn: Connection, clock: Clock, tmp_path: Path
) -> Iterator[KillableWorkers]:
    with open_killable_workers(database, conn, clock, tmp_path) as opened:
        yield opened


def test_hooks_run_after_the_process_of_a_job_was_killed(killable: KillableWorkers) -> None:
    handle = killable.enqueue("die_apart")
    with killable.worker():
        assert handle.wait(60).state is State.DEAD
        wait_until(lambda: len(killable.events()) == 2)
    assert killable.events() == [("mourned", "Crashed"), ("buried", "dead")]


def test_hooks_run_after_the_worker_of_a_job_was_killed(killable: KillableWorkers) -> None:
    handle = killable.enqueue("die_inline")
    with killable.worker() as first:
        killable.wait_for_death(first)
    with killable.worker():
        assert handle.wait(60).state is State.DEAD
        wait_until(lambda: len(killable.events()) == 2)
    assert killable.events() == [("mourned", "LeaseLost"), ("buried", "dead")]
