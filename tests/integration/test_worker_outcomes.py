"""Outcomes that cannot be sent as they are, and those that have to wait."""

from collections.abc import Callable
from typing import Any

import pytest
from cluster import Connect, Connection, Database
from integration.call_setup import TENANT_A
from integration.worker_harness import Waiters, Workshop, eventually
from sql import engine

from jobforge.db import driver
from jobforge.sdk.definition import Definition
from jobforge.sdk.verdict import verdict_from_result
from jobforge.types.jobs import ClaimedJob, Outcome, State
from jobforge.worker import worker as worker_module
from jobforge.worker.runner import JobServices, OnEnd, Report
from jobforge.worker.worker import Worker

pytestmark = pytest.mark.anyio


@pytest.fixture
def shop(database: Database, conn: Connection) -> Workshop:
    made = Workshop(database, conn)

    @made.app.job(isolation="inline")
    async def work(exit_code: int) -> None:
        del exit_code

    made.register()
    return made


class Teller:
    """A runner whose jobs have succeeded at once, with the exit code that their payload names."""

    level = None

    async def open(self) -> None:
        """Nothing to prepare."""

    async def close(self) -> None:
        """Nothing to end."""

    def start(self, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd) -> Report:
        del definition, on_end
        return Report(verdict_from_result(None), exit_code=job.payload["exit_code"])


class Breaker(Teller):
    """A runner that cannot start some."""

    def start(self, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd) -> Report:
        if job.payload["exit_code"]:
            raise OSError("too many open files")
        return super().start(job, definition, on_end)


def _by(runner: Callable[[], Teller]) -> Any:
    def make(_: JobServices) -> Teller:
        return runner()

    return {"inline": make}


async def test_an_outcome_that_the_engine_cannot_read_takes_no_other_with_it(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    codes = [0, 1, 2**40, 2, 3, 2**41, 4]
    jobs = {code: shop.enqueue("work", {"exit_code": code}) for code in codes}
    async with shop.working(runners=_by(Teller)):
        for code, job_id in jobs.items():
            await shop.ended(job_id, State.SUCCEEDED if code < 100 else State.DEAD)
    assert caplog.text.count("outcome.refused") == 2
    error = shop.history(jobs[2**40]).job.error
    assert error is not None
    assert error["type"] == "InvalidOutcome"


async def test_a_job_that_cannot_be_started_has_failed_and_the_others_run(shop: Workshop) -> None:
    bad, good = (shop.enqueue("work", {"exit_code": code}) for code in (1, 0))
    async with shop.working(runners=_by(Breaker)):
        await shop.ended(good)
        await eventually(lambda: shop.outcomes(bad)[:1] == [Outcome.FAILED])


async def test_a_job_that_somebody_has_locked_does_not_keep_others_from_being_settled(
    shop: Workshop, connect: Connect
) -> None:
    waiters = Waiters(shop)
    locked, *others = [shop.enqueue("wait") for _ in range(5)]
    holder = connect(autocommit=False)
    timeouts = driver.Timeouts(lock_s=0.05)
    async with shop.working(timeouts=timeouts, lease_s=60, heartbeat_s=30):
        await eventually(lambda: waiters.running == 5)
        holder.execute("select from jobforge.jobs where id = %s for update", [locked])
        waiters.may_end.set()
        for job_id in others:
            await shop.ended(job_id)
        assert shop.state(locked) is State.RUNNING
        holder.rollback()
        await shop.ended(locked)
    assert shop.outcomes(locked) == [Outcome.SUCCEEDED]


async def test_a_job_whose_child_is_locked_for_longer_than_its_lease_runs_once(
    shop: Workshop, conn: Connection, connect: Connect
) -> None:
    waiters = Waiters(shop)
    parent = shop.enqueue("wait")
    child = shop.enqueue("wait", after=[str(parent)], queue="later")
    holder = connect(autocommit=False)
    timeouts = driver.Timeouts(lock_s=0.05)
    async with shop.working(timeouts=timeouts, lease_s=2, heartbeat_s=0.5) as worker:
        await eventually(lambda: waiters.running == 1)
        holder.execute("select from jobforge.jobs where id = %s for update", [child])
        since = _last_beat(conn, worker)
        waiters.may_end.set()
        for job_id in [shop.enqueue("wait") for _ in range(5)]:
            await shop.ended(job_id)
        await eventually(lambda: _last_beat(conn, worker) > since + 5)
        assert shop.state(parent) is State.RUNNING
        holder.rollback()
        await shop.ended(parent)
    assert shop.outcomes(parent) == [Outcome.SUCCEEDED]
    assert waiters.running == 6
    assert shop.state(child) is State.QUEUED


async def test_a_job_that_an_application_holds_for_longer_than_its_lease_runs_once(
    shop: Workshop, conn: Connection, connect: Connect
) -> None:
    waiters = Waiters(shop)
    held = shop.enqueue("wait")
    application = connect(autocommit=False)
    timeouts = driver.Timeouts(lock_s=0.05)
    async with shop.working(timeouts=timeouts, lease_s=2, heartbeat_s=0.5) as worker:
        await eventually(lambda: waiters.running == 1)
        # Locks the job that is named as parent until the application commits.
        engine.enqueue_one(
            application, TENANT_A, definition="wait", queue="later", after=[str(held)]
        )
        since = _last_beat(conn, worker)
        await eventually(lambda: _last_beat(conn, worker) > since + 5)
        waiters.may_end.set()
        for job_id in [shop.enqueue("wait") for _ in range(5)]:
            await shop.ended(job_id)
        assert shop.state(held) is State.RUNNING
        application.commit()
        await shop.ended(held)
    assert shop.outcomes(held) == [Outcome.SUCCEEDED]
    assert (waiters.running, waiters.cancelled) == (6, 0)


def _last_beat(conn: Connection, worker: Worker) -> float:
    [row] = conn.execute(
        "select extract(epoch from heartbeat_at)::float8 as at from jobforge.workers where id = %s",
        [worker.worker_id],
    ).fetchall()
    return float(row["at"])


async def test_a_busy_job_is_named_when_its_worker_ends_without_having_settled_it(
    shop: Workshop,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_module, "_FLUSH_S", 0.5)
    job = shop.enqueue("work", {"exit_code": 0})
    holder = connect(autocommit=False)
    locker = Locker(holder)
    async with shop.working(runners=_by(lambda: locker)):
        await eventually(lambda: locker.has_locked)
    [line] = [line for line in caplog.text.splitlines() if "job.unsettled" in line]
    assert str(job) in line
    assert "another transaction holds the job" in line
    holder.rollback()


class Locker(Teller):
    """A runner whose job is locked by another transaction before it ends."""

    def __init__(self, holder: Connection) -> None:
        self._holder = holder
        self.has_locked = False

    def start(self, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd) -> Report:
        self.has_locked = True
        self._holder.execute("select from jobforge.jobs where id = %s for update", [job.job_id])
        return super().start(job, definition, on_end)
