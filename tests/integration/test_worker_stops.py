"""How a worker stops: drained or stopped, locally and remotely."""

import asyncio

import pytest
from cluster import Connection, Database
from integration.worker_harness import WaitingJobs, WorkerHarness, eventually

from jobforge import calls, db
from jobforge.types.jobs import Outcome, State

pytestmark = pytest.mark.anyio


@pytest.fixture
def harness(database: Database, conn: Connection) -> WorkerHarness:
    return WorkerHarness(database, conn)


async def test_a_drain_lets_running_jobs_finish_and_claims_no_more(harness: WorkerHarness) -> None:
    waiters = WaitingJobs(harness)
    running = harness.enqueue("wait")
    async with db.Database(harness.database.url_as("worker_login")) as pool:
        worker = harness.worker(pool, queues={"default": 1}, poll_s=0.01)
        run = asyncio.create_task(worker.run())
        await eventually(lambda: waiters.running == 1)
        waiting = harness.enqueue("wait")
        worker.stop()
        waiters.may_end.set()
        await run
    assert harness.state(running) is State.SUCCEEDED
    assert harness.state(waiting) is State.QUEUED
    [info] = db.run(harness.conn, calls.list_workers())
    assert info.state == "stopped"


async def test_jobs_that_outlast_a_drain_are_released_without_an_attempt(
    harness: WorkerHarness,
) -> None:
    waiters = WaitingJobs(harness)
    job_id = harness.enqueue("wait")
    async with db.Database(harness.database.url_as("worker_login")) as pool:
        worker = harness.worker(pool, drain_s=0.05)
        run = asyncio.create_task(worker.run())
        await eventually(lambda: waiters.running == 1)
        worker.stop()
        await run
    job = harness.history(job_id).job
    assert (job.state, job.attempt) == (State.QUEUED, 0)
    assert harness.outcomes(job_id) == [Outcome.RELEASED]
    assert waiters.cancelled == 1


async def test_a_second_stop_releases_jobs_at_once(harness: WorkerHarness) -> None:
    waiters = WaitingJobs(harness)
    job_id = harness.enqueue("wait")
    async with db.Database(harness.database.url_as("worker_login")) as pool:
        worker = harness.worker(pool, drain_s=3600)
        run = asyncio.create_task(worker.run())
        await eventually(lambda: waiters.running == 1)
        worker.stop()
        worker.stop()
        await run
    job = harness.history(job_id).job
    assert (job.state, job.attempt) == (State.QUEUED, 0)


async def test_a_second_stop_cuts_a_drain_short(harness: WorkerHarness) -> None:
    waiters = WaitingJobs(harness)
    jobs = [harness.enqueue("wait") for _ in range(3)]
    async with db.Database(harness.database.url_as("worker_login")) as pool:
        worker = harness.worker(pool, drain_s=3600)
        run = asyncio.create_task(worker.run())
        await eventually(lambda: waiters.running == 3)
        worker.stop()
        # A drain lasts as long as its jobs; its claims have ended by then.
        await eventually(lambda: worker.is_draining)
        assert not run.done()
        worker.stop()
        await run
    assert {harness.state(job_id) for job_id in jobs} == {State.QUEUED}


async def test_a_handler_that_ignores_a_stop_does_not_keep_the_worker_running(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobforge.worker.worker._KILL_S", 0.05)
    is_over = asyncio.Event()
    running = 0

    @harness.app.job(isolation="inline")
    async def refuse() -> None:
        nonlocal running
        running += 1
        while not is_over.is_set():
            try:
                await is_over.wait()
            except asyncio.CancelledError:
                continue

    harness.register()
    job_id = harness.enqueue("refuse")
    async with db.Database(harness.database.url_as("worker_login")) as pool:
        worker = harness.worker(pool)
        run = asyncio.create_task(worker.run())
        await eventually(lambda: running == 1)
        worker.stop()
        worker.stop()
        await run
    assert harness.state(job_id) is State.QUEUED
    is_over.set()


async def test_a_worker_is_drained_remotely(harness: WorkerHarness) -> None:
    waiters = WaitingJobs(harness)
    job_id = harness.enqueue("wait")
    async with db.Database(harness.database.url_as("worker_login")) as pool:
        worker = harness.worker(pool, heartbeat_s=30, lease_s=90)
        run = asyncio.create_task(worker.run())
        await eventually(lambda: waiters.running == 1)
        db.run(harness.conn, calls.drain_worker(worker.worker_id))
        await eventually(lambda: worker.is_draining)
        waiters.may_end.set()
        await run
    assert harness.state(job_id) is State.SUCCEEDED


@pytest.mark.parametrize("listens", [True, False])
async def test_a_worker_is_stopped_remotely(harness: WorkerHarness, *, listens: bool) -> None:
    waiters = WaitingJobs(harness)
    job_id = harness.enqueue("wait")
    url = harness.database.url_as("worker_login")
    async with db.Database(url, behind_pooler=not listens) as pool:
        # Without notifications the next heartbeat delivers the command; with them it must come
        # earlier.
        heartbeat_s = 30.0 if listens else 0.1
        worker = harness.worker(pool, heartbeat_s=heartbeat_s, lease_s=90, drain_s=3600)
        run = asyncio.create_task(worker.run())
        await eventually(lambda: waiters.running == 1)
        db.run(harness.conn, calls.stop_worker(worker.worker_id))
        await run
    assert harness.state(job_id) is State.QUEUED
