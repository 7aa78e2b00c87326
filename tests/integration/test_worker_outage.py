"""When the database goes away: a worker keeps what it has and goes on when it is back."""

import asyncio
from collections import Counter
from functools import partial
from uuid import UUID

import pytest
from cluster import Connection, Database
from integration.worker_harness import Waiters, Workshop, cut, eventually, set_open

from jobforge import Context, Retry
from jobforge.types.jobs import Outcome, State

pytestmark = pytest.mark.anyio


@pytest.fixture
def shop(database: Database, conn: Connection) -> Workshop:
    return Workshop(database, conn)


async def test_no_job_is_lost_or_run_twice_in_one_attempt_when_connections_are_cut(
    shop: Workshop, conn: Connection
) -> None:
    entered: Counter[tuple[UUID, int]] = Counter()

    # A claim whose answer was cut off costs an attempt.
    @shop.app.job(isolation="inline", retry=Retry(max_attempts=20, base=0.1, cap=1))
    async def work(ctx: Context) -> None:
        entered[ctx.job_id, ctx.attempt] += 1
        await asyncio.sleep(0)

    shop.register()
    jobs = [shop.enqueue("work") for _ in range(200)]
    async with shop.working(queues={"default": 5}, lease_s=2, heartbeat_s=0.2, poll_s=0.05):
        for cut_at in (20, 60, 100, 140):
            await eventually(partial(_has, entered, cut_at))
            cut(conn)
        for job_id in jobs:
            await shop.ended(job_id)
    assert max(entered.values()) == 1


def _has(entered: Counter[tuple[UUID, int]], least: int) -> bool:
    return len(entered) >= least


async def test_an_outcome_is_kept_until_the_database_is_back(
    shop: Workshop, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    waiters = Waiters(shop)
    job_id = shop.enqueue("wait")
    async with shop.working(lease_s=60, heartbeat_s=20):
        await eventually(lambda: waiters.running == 1)
        set_open(conn, is_open=False)
        cut(conn)
        waiters.may_end.set()
        await eventually(lambda: "database.lost" in caplog.text)
        set_open(conn, is_open=True)
        await shop.ended(job_id)
        await eventually(lambda: "database.back" in caplog.text)
    assert shop.outcomes(job_id) == [Outcome.SUCCEEDED]
    # A connection that was idle may notice only later that it was cut too.
    assert caplog.text.count("database.lost") == caplog.text.count("database.back")


async def test_an_outage_longer_than_the_lease_uses_no_attempt(
    shop: Workshop, conn: Connection
) -> None:
    running: list[int] = []
    given_up = asyncio.Event()

    @shop.app.job(isolation="inline", retry=Retry(max_attempts=1))
    async def work(ctx: Context) -> None:
        running.append(ctx.attempt)
        if len(running) == 1:
            try:
                await asyncio.Event().wait()
            finally:
                given_up.set()

    shop.register()
    job_id = shop.enqueue("work")
    async with shop.working(lease_s=1, heartbeat_s=0.1):
        await eventually(lambda: len(running) == 1)
        set_open(conn, is_open=False)
        cut(conn)
        # It gives the job up by its own clock. Another worker may have it by then.
        await eventually(given_up.is_set)
        # As the reaper notes it: the workers have a minute and a second.
        conn.execute(
            "update jobforge.reaper set outage_from = now() - interval '1 minute',"
            " outage_until = now() + interval '1 minute', reaped_at = now()"
        )
        set_open(conn, is_open=True)
        await shop.ended(job_id)
    assert shop.outcomes(job_id) == [Outcome.RELEASED, Outcome.SUCCEEDED]
    assert running == [1, 1]


async def test_a_worker_ends_in_spite_of_an_outage(
    shop: Workshop, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobforge.worker.worker._FLUSH_S", 0.1)
    waiters = Waiters(shop)
    job_id = shop.enqueue("wait")
    async with shop.working(lease_s=60, heartbeat_s=20):
        await eventually(lambda: waiters.running == 1)
        set_open(conn, is_open=False)
        cut(conn)
    set_open(conn, is_open=True)
    assert shop.state(job_id) is State.RUNNING
    assert waiters.cancelled == 1
