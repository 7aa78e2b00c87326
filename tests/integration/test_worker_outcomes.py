"""Outcomes that cannot be sent unchanged, and outcomes that have to wait."""

from collections.abc import Callable
from typing import Any

import pytest
from cluster import Connect, Connection, Database
from integration.call_setup import TENANT_A
from integration.worker_harness import WaitingJobs, WorkerHarness, eventually
from sql import engine

from jobforge.db import driver
from jobforge.sdk.definition import Definition
from jobforge.sdk.verdict import verdict_from_result
from jobforge.types.jobs import ClaimedJob, Outcome, State
from jobforge.worker import worker as worker_module
from jobforge.worker.runner_protocol import JobServices, OnEnd, Report
from jobforge.worker.worker import Worker

pytestmark = pytest.mark.anyio


@pytest.fixture
def harness(database: Database, conn: Connection) -> WorkerHarness:
    created = WorkerHarness(database, conn)

    @created.app.job(isolation="inline")
    async def work(exit_code: int) -> None:
        del exit_code

    created.register()
    return created


class ExitCodeRunner:
    """A runner whose jobs have succeeded at once, with the exit code that their payload names."""

    level = None

    async def open(self) -> None:
        """Prepare nothing."""

    async def close(self) -> None:
        """Close nothing."""

    def start(self, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd) -> Report:
        del definition, on_end
        return Report(verdict_from_result(None), exit_code=job.payload["exit_code"])


class UnstartableRunner(ExitCodeRunner):
    """A runner that cannot start some jobs."""

    def start(self, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd) -> Report:
        if job.payload["exit_code"]:
            raise OSError("too many open files")
        return super().start(job, definition, on_end)


def _by(runner: Callable[[], ExitCodeRunner]) -> Any:
    def make(_: JobServices) -> ExitCodeRunner:
        return runner()

    return {"inline": make}


async def test_an_outcome_that_the_engine_cannot_read_does_not_affect_others(
    harness: WorkerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    codes = [0, 1, 2**40, 2, 3, 2**41, 4]
    jobs = {code: harness.enqueue("work", {"exit_code": code}) for code in codes}
    async with harness.running_worker(runners=_by(ExitCodeRunner)):
        for code, job_id in jobs.items():
            await harness.wait_for_state(job_id, State.SUCCEEDED if code < 100 else State.DEAD)
    assert caplog.text.count("outcome.refused") == 2
    error = harness.history(jobs[2**40]).job.error
    assert error is not None
    assert error["type"] == "InvalidOutcome"


async def test_a_job_that_cannot_be_started_has_failed_and_the_others_run(
    harness: WorkerHarness,
) -> None:
    bad, good = (harness.enqueue("work", {"exit_code": code}) for code in (1, 0))
    async with harness.running_worker(runners=_by(UnstartableRunner)):
        await harness.wait_for_state(good)
        await eventually(lambda: harness.outcomes(bad)[:1] == [Outcome.FAILED])


async def test_a_locked_job_does_not_prevent_others_from_being_settled(
    harness: WorkerHarness, connect: Connect
) -> None:
    waiters = WaitingJobs(harness)
    locked, *others = [harness.enqueue("wait") for _ in range(5)]
    holder = connect(autocommit=False)
    timeouts = driver.Timeouts(lock_s=0.05)
    async with harness.running_worker(timeouts=timeouts, lease_s=60, heartbeat_s=30):
        await eventually(lambda: waiters.running == 5)
        holder.execute("select from jobforge.jobs where id = %s for update", [locked])
        waiters.may_end.set()
        for job_id in others:
            await harness.wait_for_state(job_id)
        assert harness.state(locked) is State.RUNNING
        holder.rollback()
        await harness.wait_for_state(locked)
    assert harness.outcomes(locked) == [Outcome.SUCCEEDED]


async def test_a_job_whose_child_is_locked_for_longer_than_its_lease_runs_once(
    harness: WorkerHarness, conn: Connection, connect: Connect
) -> None:
    waiters = WaitingJobs(harness)
    parent = harness.enqueue("wait")
    child = harness.enqueue("wait", after=[str(parent)], queue="later")
    holder = connect(autocommit=False)
    timeouts = driver.Timeouts(lock_s=0.05)
    async with harness.running_worker(timeouts=timeouts, lease_s=2, heartbeat_s=0.5) as worker:
        await eventually(lambda: waiters.running == 1)
        holder.execute("select from jobforge.jobs where id = %s for update", [child])
        since = _last_beat(conn, worker)
        waiters.may_end.set()
        for job_id in [harness.enqueue("wait") for _ in range(5)]:
            await harness.wait_for_state(job_id)
        await eventually(lambda: _last_beat(conn, worker) > since + 5)
        assert harness.state(parent) is State.RUNNING
        holder.rollback()
        await harness.wait_for_state(parent)
    assert harness.outcomes(parent) == [Outcome.SUCCEEDED]
    assert waiters.running == 6
    assert harness.state(child) is State.QUEUED


async def test_a_job_locked_by_an_application_for_longer_than_its_lease_runs_once(
    harness: WorkerHarness, conn: Connection, connect: Connect
) -> None:
    waiters = WaitingJobs(harness)
    held = harness.enqueue("wait")
    application = connect(autocommit=False)
    timeouts = driver.Timeouts(lock_s=0.05)
    async with harness.running_worker(timeouts=timeouts, lease_s=2, heartbeat_s=0.5) as worker:
        await eventually(lambda: waiters.running == 1)
        # Locks the parent job until the application commits.
        engine.enqueue_one(
            application, TENANT_A, definition="wait", queue="later", after=[str(held)]
        )
        since = _last_beat(conn, worker)
        await eventually(lambda: _last_beat(conn, worker) > since + 5)
        waiters.may_end.set()
        for job_id in [harness.enqueue("wait") for _ in range(5)]:
            await harness.wait_for_state(job_id)
        assert harness.state(held) is State.RUNNING
        application.commit()
        await harness.wait_for_state(held)
    assert harness.outcomes(held) == [Outcome.SUCCEEDED]
    assert (waiters.running, waiters.cancelled) == (6, 0)


def _last_beat(conn: Connection, worker: Worker) -> float:
    [row] = conn.execute(
        "select extract(epoch from heartbeat_at)::float8 as at from jobforge.workers where id = %s",
        [worker.worker_id],
    ).fetchall()
    return float(row["at"])


async def test_a_worker_that_stops_logs_a_locked_job_that_it_could_not_settle(
    harness: WorkerHarness,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_module, "_FLUSH_S", 0.5)
    job = harness.enqueue("work", {"exit_code": 0})
    holder = connect(autocommit=False)
    locker = LockingRunner(holder)
    async with harness.running_worker(runners=_by(lambda: locker)):
        await eventually(lambda: locker.has_locked)
    [line] = [line for line in caplog.text.splitlines() if "job.unsettled" in line]
    assert str(job) in line
    assert "another transaction locks the job" in line
    holder.rollback()


class LockingRunner(ExitCodeRunner):
    """A runner whose job another transaction locks before the job ends."""

    def __init__(self, holder: Connection) -> None:
        self._holder = holder
        self.has_locked = False

    def start(self, job: ClaimedJob, definition: Definition[..., Any], on_end: OnEnd) -> Report:
        self.has_locked = True
        self._holder.execute("select from jobforge.jobs where id = %s for update", [job.job_id])
        return super().start(job, definition, on_end)
