"""Completing a job in the handler's own transaction (R21): effect and completion are atomic."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cluster import Clock, Connection, Database
from integration.killable_workers import KillableWorkers, open_killable_workers

from jobforge import Context, JobForge, Retry, calls, db
from jobforge.embedded import PostgresServer
from jobforge.errors import Invalid, InvalidResult, LeaseLost
from jobforge.testing import Kit
from jobforge.testing.cluster import Postgres
from jobforge.types.jobs import Outcome, State

jf = JobForge()


@jf.job(retry=Retry(max_attempts=2))
def pay(ctx: Context, url: str, keep: bool = True) -> None:  # noqa: FBT001, FBT002 - a payload
    with psycopg.connect(url) as conn:
        conn.execute("insert into payments values (%s)", [ctx.attempt])
        ctx.complete_in(conn, {"paid": True})
        if not keep:
            conn.rollback()


@jf.job(isolation="inline")
async def pay_async(ctx: Context, url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url) as conn:
        await conn.execute("insert into payments values (%s)", [ctx.attempt])
        await ctx.complete_in(conn, {"paid": True})


@jf.job(retry=Retry(max_attempts=2))
def pay_with(ctx: Context, url: str, result: str) -> None:
    results = {"no number": float("nan"), "too much": "x" * 2_000_000}
    with psycopg.connect(url) as conn:
        conn.execute("insert into payments values (%s)", [ctx.attempt])
        ctx.complete_in(conn, results[result])


@jf.job(retry=Retry(max_attempts=2))
def pay_late(ctx: Context, url: str) -> None:
    """Its lease expires and passes to another attempt while the first one is still running."""
    with psycopg.connect(url) as conn:
        conn.execute("insert into payments values (%s)", [ctx.attempt])
        if ctx.attempt == 1:
            lose_lease()
        ctx.complete_in(conn, {"paid": True})


def lose_lease() -> None:
    raise NotImplementedError  # the test replaces this function


@pytest.fixture(scope="session")
def jobforge_postgres(server: PostgresServer) -> Postgres:
    return Postgres(server.url(), is_durable=False)


@pytest.fixture
def kit(jf_test: Kit) -> Iterator[Kit]:
    jf_test.use(jf)
    with psycopg.connect(jf_test.url) as conn:
        conn.execute("create table payments (attempt integer)")
    with jf.tenant(jf_test.tenant("acme")):
        yield jf_test


@pytest.fixture
def killable(
    database: Database, conn: Connection, clock: Clock, tmp_path: Path
) -> Iterator[KillableWorkers]:
    with open_killable_workers(database, conn, clock, tmp_path) as opened:
        yield opened


def _payments(kit: Kit) -> list[int]:
    with psycopg.connect(kit.url) as conn:
        return [row[0] for row in conn.execute("select attempt from payments order by attempt")]


@pytest.mark.parametrize("definition", [pay, pay_async], ids=lambda each: each.settings.key)
def test_the_commit_of_the_handler_completes_the_job(kit: Kit, definition: Any) -> None:
    handle = definition.enqueue(url=kit.url)
    drained = kit.drain()
    assert (drained.succeeded, len(drained.jobs)) == (1, 1)
    assert handle.job().result == {"paid": True}
    assert _payments(kit) == [1]


def test_a_handler_that_does_not_commit_has_failed(kit: Kit) -> None:
    handle = pay.enqueue(url=kit.url, keep=False)
    drained = kit.drain()
    assert (drained.failed, drained.dead) == (1, 1)
    assert _payments(kit) == []
    error = handle.job().error
    assert error is not None
    assert error["type"] == "NotCommitted"


@pytest.mark.parametrize("result", ["no number", "too much"])
def test_a_result_that_cannot_be_stored_rolls_the_handler_back(kit: Kit, result: str) -> None:
    pay_with.enqueue(url=kit.url, result=result)
    (ran,) = kit.drain().jobs
    assert isinstance(ran.exception, InvalidResult)
    assert ran.state is State.DEAD
    assert _payments(kit) == []


def test_a_handler_without_its_lease_cannot_commit(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def travel_and_reap() -> None:
        kit.travel(hours=2)
        with db.connect(kit.worker_url) as conn:
            db.run(conn, calls.reap_jobs())

    monkeypatch.setitem(globals(), "lose_lease", travel_and_reap)
    pay_late.enqueue(url=kit.url)
    drained = kit.drain()
    assert isinstance(drained.jobs[0].exception, LeaseLost)
    assert drained.jobs[1].state is State.SUCCEEDED
    assert _payments(kit) == [2]


def test_a_job_that_does_not_run_cannot_be_completed(kit: Kit) -> None:
    with pytest.raises(Invalid, match="no worker runs it"):
        kit.run(pay, url=kit.url)
    assert _payments(kit) == []


def test_a_process_killed_before_the_commit_leaves_neither_effect_nor_completion(
    killable: KillableWorkers,
) -> None:
    handle = killable.enqueue("transfer_apart", url=killable.url, moment="before commit")
    with killable.worker():
        job = handle.wait(60)
    assert job.result == {"attempt": 2}
    assert killable.effects() == [2]
    outcomes = [attempt.outcome for attempt in killable.history(handle).attempts]
    assert outcomes == [Outcome.CRASHED, Outcome.SUCCEEDED]


def test_a_process_killed_before_the_reply_of_the_commit_leaves_both(
    killable: KillableWorkers,
) -> None:
    handle = killable.enqueue("transfer_apart", url=killable.url, moment="after commit")
    with killable.worker():
        killable.wait_for_reports()
    # it reported its completion, which the engine refused
    assert killable.has_logged(handle, outcome="crashed")
    history = killable.history(handle)
    assert (history.job.state, history.job.result) == (State.SUCCEEDED, {"attempt": 1})
    assert [attempt.outcome for attempt in history.attempts] == [Outcome.SUCCEEDED]
    assert killable.effects() == [1]


def test_a_worker_killed_before_the_commit_leaves_neither_effect_nor_completion(
    killable: KillableWorkers,
) -> None:
    handle = killable.enqueue("transfer_inline", url=killable.url, moment="before commit")
    with killable.worker() as first:
        killable.wait_for_death(first)
    assert killable.effects() == []
    with killable.worker():
        job = handle.wait(60)
    assert job.result == {"attempt": 2}
    assert killable.effects() == [2]
    outcomes = [attempt.outcome for attempt in killable.history(handle).attempts]
    assert outcomes == [Outcome.LEASE_LOST, Outcome.SUCCEEDED]


def test_a_worker_killed_before_the_reply_of_the_commit_leaves_both(
    killable: KillableWorkers,
) -> None:
    handle = killable.enqueue("transfer_inline", url=killable.url, moment="after commit")
    with killable.worker() as first:
        killable.wait_for_death(first)
    with killable.worker():
        killable.wait_for_reports()
    history = killable.history(handle)
    assert (history.job.state, history.job.result) == (State.SUCCEEDED, {"attempt": 1})
    assert [attempt.outcome for attempt in history.attempts] == [Outcome.SUCCEEDED]
    assert killable.effects() == [1]
