"""Leases: extended while a job runs, given up in time, and not used after their loss."""

from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection, Database
from integration.call_setup import TENANT_A
from integration.worker_harness import (
    WaitingJobs,
    WorkerHarness,
    allow_connections,
    cut_connections,
    eventually,
)

from jobforge import calls, db
from jobforge.db import driver
from jobforge.types.jobs import Outcome, State

pytestmark = pytest.mark.anyio


@pytest.fixture
def harness(database: Database, conn: Connection) -> WorkerHarness:
    return WorkerHarness(database, conn)


async def test_a_lease_is_extended_while_its_job_runs(
    harness: WorkerHarness, conn: Connection
) -> None:
    waiters = WaitingJobs(harness)
    job_id = harness.enqueue("wait")

    def expiry() -> object:
        row = conn.execute("select expires_at as it from jobforge.heartbeats").fetchone()
        return row and row["it"]

    seen: list[object] = []
    async with harness.running_worker(heartbeat_s=0.1):
        await eventually(lambda: waiters.running == 1)
        for _ in range(2):
            seen.append(expiry())
            await eventually(lambda: expiry() != seen[-1])
        waiters.may_end.set()
        await harness.wait_for_state(job_id)
    assert harness.outcomes(job_id) == [Outcome.SUCCEEDED]


@pytest.mark.parametrize("listens", [True, False])
async def test_a_cancel_reaches_a_running_job(harness: WorkerHarness, *, listens: bool) -> None:
    waiters = WaitingJobs(harness)
    job_id = harness.enqueue("wait")
    # Without notifications the next heartbeat delivers the request; with them it must come earlier.
    heartbeat_s = 30.0 if listens else 0.1
    async with harness.running_worker(listens=listens, heartbeat_s=heartbeat_s, lease_s=90):
        await eventually(lambda: waiters.running == 1)
        db.run(harness.conn, calls.cancel_job(job_id, tenant_id=TENANT_A))
        await harness.wait_for_state(job_id, State.CANCELED)
    assert harness.outcomes(job_id) == [Outcome.CANCELED]


async def test_a_late_completion_is_refused(
    harness: WorkerHarness, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    waiters = WaitingJobs(harness)
    job_id = harness.enqueue("wait")
    async with harness.running_worker(heartbeat_s=30, lease_s=60):
        await eventually(lambda: waiters.running == 1)
        _expire(harness, clock, job_id)
        waiters.may_end.set()
        await eventually(lambda: "job.lost" in caplog.text)
    assert harness.outcomes(job_id) == [Outcome.LEASE_LOST]
    assert harness.state(job_id) is State.SCHEDULED


async def test_a_job_whose_lease_was_lost_is_stopped_at_the_next_heartbeat(
    harness: WorkerHarness, clock: Clock
) -> None:
    waiters = WaitingJobs(harness)
    job_id = harness.enqueue("wait")
    async with harness.running_worker(heartbeat_s=0.1):
        await eventually(lambda: waiters.running == 1)
        _expire(harness, clock, job_id)
        await eventually(lambda: waiters.cancelled == 1)
    assert harness.outcomes(job_id)[0] is Outcome.LEASE_LOST


def _expire(harness: WorkerHarness, clock: Clock, job_id: UUID) -> None:
    """Let the lease expire, and let another process reap it."""
    clock.travel(hours=1)
    reaped = db.run(harness.conn, calls.reap_jobs())
    assert job_id in {each.job_id for each in reaped}


async def test_a_worker_stops_a_job_by_its_own_clock_when_the_lease_cannot_be_extended(
    harness: WorkerHarness, conn: Connection
) -> None:
    waiters = WaitingJobs(harness)
    harness.enqueue("wait")
    async with harness.running_worker(lease_s=1, heartbeat_s=0.1):
        await eventually(lambda: waiters.running == 1)
        allow_connections(conn, are_allowed=False)
        cut_connections(conn)
        await eventually(lambda: waiters.cancelled == 1)
        allow_connections(conn, are_allowed=True)


async def test_a_blocked_heartbeat_does_not_keep_a_job_beyond_its_lease(
    harness: WorkerHarness, connect: Connect
) -> None:
    waiters = WaitingJobs(harness)
    harness.enqueue("wait")
    holder = connect(autocommit=False)
    async with harness.running_worker(
        lease_s=1, heartbeat_s=0.1, timeouts=driver.Timeouts(lock_s=0)
    ):
        await eventually(lambda: waiters.running == 1)
        holder.execute("lock table jobforge.heartbeats")
        await eventually(lambda: waiters.cancelled == 1)
        holder.rollback()


async def test_a_worker_continues_a_job_whose_lease_cannot_be_extended_and_retries_soon(
    harness: WorkerHarness, connect: Connect, conn: Connection
) -> None:
    waiters = WaitingJobs(harness)
    job_id = harness.enqueue("wait")
    holder = connect(autocommit=False)
    # The regular heartbeat would come too late for the test; the one after `held` comes in time.
    async with harness.running_worker(heartbeat_s=60, lease_s=120) as worker:
        await eventually(lambda: waiters.running == 1)
        holder.execute(
            "insert into jobforge.heartbeats (tenant_id, job_id, worker_id, lease, expires_at)"
            " select tenant_id, id, worker_id, lease, lease_expires_at from jobforge.jobs"
            # The listener wakes the worker when it has connected, so there may be a heartbeat.
            " on conflict (tenant_id, job_id) do update set lease = excluded.lease"
        )
        # The notification triggers a heartbeat, which is then blocked, so it cannot deliver the
        # request.
        db.run(harness.conn, calls.cancel_job(job_id, tenant_id=TENANT_A))
        await eventually(lambda: _beats(conn, worker.worker_id) == 1)
        assert waiters.cancelled == 0
        assert harness.state(job_id) is State.CANCELING
        holder.rollback()
        await harness.wait_for_state(job_id, State.CANCELED)
    assert harness.outcomes(job_id) == [Outcome.CANCELED]


def _beats(conn: Connection, worker_id: UUID) -> int:
    """Return 1 if the worker has reported a running job, which only a heartbeat does."""
    query = "select running from jobforge.workers where id = %s"
    [row] = conn.execute(query, [worker_id]).fetchall()
    assert isinstance(row["running"], int)
    return row["running"]


async def test_a_worker_that_the_database_has_deleted_registers_again(
    harness: WorkerHarness, conn: Connection
) -> None:
    WaitingJobs(harness)
    async with harness.running_worker(heartbeat_s=0.1):
        conn.execute("delete from jobforge.workers")
        await eventually(lambda: conn.execute("select from jobforge.workers").rowcount == 1)


async def test_a_claim_registers_a_worker_that_the_database_has_deleted(
    harness: WorkerHarness,
) -> None:
    """The claim must not wait for a heartbeat, which is minutes away here."""

    @harness.app.job(isolation="inline")
    async def work() -> None:
        return None

    harness.register()
    async with harness.running_worker(heartbeat_s=200, lease_s=600, poll_s=0.1) as worker:
        harness.conn.execute("delete from jobforge.workers")
        await harness.wait_for_state(harness.enqueue("work"))
        rows = harness.conn.execute("select id from jobforge.workers").fetchall()
        assert rows == [{"id": worker.worker_id}]


async def test_the_jobs_of_a_dead_worker_run_again(harness: WorkerHarness) -> None:
    @harness.app.job(isolation="inline")
    async def work() -> None:
        return None

    harness.register()
    job_id = harness.enqueue("work")
    db.run(harness.conn, calls.claim_jobs(uuid4(), {"default": 1}, lease_s=1))
    async with harness.running_worker(lease_s=1, heartbeat_s=0.2, poll_s=0.1):
        await harness.wait_for_state(job_id)
    assert harness.outcomes(job_id) == [Outcome.LEASE_LOST, Outcome.SUCCEEDED]
