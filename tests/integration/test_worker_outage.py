"""Database outages: a worker keeps its jobs and outcomes, and continues afterwards."""

import asyncio
from collections import Counter
from functools import partial
from uuid import UUID

import pytest
from cluster import Connection, Database
from integration.worker_harness import (
    WaitingJobs,
    WorkerHarness,
    allow_connections,
    cut_connections,
    eventually,
)

from jobforge import Context, Retry
from jobforge.types.jobs import Outcome, State

pytestmark = pytest.mark.anyio


@pytest.fixture
def harness(database: Database, conn: Connection) -> WorkerHarness:
    return WorkerHarness(database, conn)


async def test_no_job_is_lost_or_run_twice_in_one_attempt_when_connections_are_cut(
    harness: WorkerHarness, conn: Connection
) -> None:
    entered: Counter[tuple[UUID, int]] = Counter()

    # A claim with a lost response costs an attempt.
    @harness.app.job(isolation="inline", retry=Retry(max_attempts=20, base=0.1, cap=1))
    async def work(ctx: Context) -> None:
        entered[ctx.job_id, ctx.attempt] += 1
        await asyncio.sleep(0)

    harness.register()
    jobs = [harness.enqueue("work") for _ in range(200)]
    async with harness.running_worker(
        queues={"default": 5}, lease_s=2, heartbeat_s=0.2, poll_s=0.05
    ):
        for cut_at in (20, 60, 100, 140):
            await eventually(partial(_has, entered, cut_at))
            cut_connections(conn)
        for job_id in jobs:
            await harness.wait_for_state(job_id)
    assert max(entered.values()) == 1


def _has(entered: Counter[tuple[UUID, int]], least: int) -> bool:
    return len(entered) >= least


async def test_an_outcome_is_kept_until_the_database_is_available_again(
    harness: WorkerHarness, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    waiters = WaitingJobs(harness)
    job_id = harness.enqueue("wait")
    async with harness.running_worker(lease_s=60, heartbeat_s=20):
        await eventually(lambda: waiters.running == 1)
        allow_connections(conn, are_allowed=False)
        cut_connections(conn)
        waiters.may_end.set()
        await eventually(lambda: "database.lost" in caplog.text)
        allow_connections(conn, are_allowed=True)
        await harness.wait_for_state(job_id)
        await eventually(lambda: "database.back" in caplog.text)
    assert harness.outcomes(job_id) == [Outcome.SUCCEEDED]
    # A connection that was idle may notice only later that it was cut.
    assert caplog.text.count("database.lost") == caplog.text.count("database.back")


async def test_an_outage_longer_than_the_lease_uses_no_attempt(
    harness: WorkerHarness, conn: Connection
) -> None:
    running: list[int] = []
    given_up = asyncio.Event()

    @harness.app.job(isolation="inline", retry=Retry(max_attempts=1))
    async def work(ctx: Context) -> None:
        running.append(ctx.attempt)
        if len(running) == 1:
            try:
                await asyncio.Event().wait()
            finally:
                given_up.set()

    harness.register()
    job_id = harness.enqueue("work")
    async with harness.running_worker(lease_s=1, heartbeat_s=0.1):
        await eventually(lambda: len(running) == 1)
        allow_connections(conn, are_allowed=False)
        cut_connections(conn)
        # The worker gives up the job by its own clock. Another worker may have the job by then.
        await eventually(given_up.is_set)
        # As the reaper records it: the workers have a minute and a second.
        conn.execute(
            "update jobforge.reaper set outage_from = now() - interval '1 minute',"
            " outage_until = now() + interval '1 minute', reaped_at = now()"
        )
        allow_connections(conn, are_allowed=True)
        await harness.wait_for_state(job_id)
    assert harness.outcomes(job_id) == [Outcome.RELEASED, Outcome.SUCCEEDED]
    assert running == [1, 1]


async def test_a_worker_exits_despite_an_outage(
    harness: WorkerHarness, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobforge.worker.worker._FLUSH_S", 0.1)
    waiters = WaitingJobs(harness)
    job_id = harness.enqueue("wait")
    async with harness.running_worker(lease_s=60, heartbeat_s=20):
        await eventually(lambda: waiters.running == 1)
        allow_connections(conn, are_allowed=False)
        cut_connections(conn)
    allow_connections(conn, are_allowed=True)
    assert harness.state(job_id) is State.RUNNING
    assert waiters.cancelled == 1
