"""Durable steps under real workers that are killed, lose a lease or a connection, or
have one slot.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from cluster import Clock, Connection, Database
from integration.call_setup import TENANT_A
from integration.killable_workers import open_killable_workers
from integration.worker_harness import (
    WorkerHarness,
    allow_connections,
    cut_connections,
    eventually,
    running_scheduler,
)
from sql.engine import call_for_value

from jobforge import Context, Retry
from jobforge.sdk.worker_requests import SaveStep
from jobforge.types.jobs import Outcome, State

pytestmark = pytest.mark.anyio


@pytest.fixture
def harness(database: Database, conn: Connection) -> WorkerHarness:
    return WorkerHarness(database, conn)


# Before, within, between and after the steps.
EVERYWHERE = [1, 2, 3, 4, 5, 6, 7]


def test_finished_steps_survive_the_death_of_their_process_at_every_point(
    database: Database, conn: Connection, clock: Clock, folder: Path
) -> None:
    effects = folder / "effects"
    with open_killable_workers(database, conn, clock, folder) as ward, ward.worker():
        handle = ward.enqueue("walk_apart", path=str(effects), deaths=EVERYWHERE)
        assert handle.result(60) == len(EVERYWHERE) + 1
    # Each step ran again once: it had its effect and was killed before its result was stored.
    assert effects.read_text().split() == ["0", "0", "1", "1", "2", "2"]


def test_finished_steps_survive_the_death_of_their_worker(
    database: Database, conn: Connection, clock: Clock, folder: Path
) -> None:
    effects = folder / "effects"
    deaths = [3, 4, 7]
    with open_killable_workers(database, conn, clock, folder) as ward:
        handle = ward.enqueue("walk_inline", path=str(effects), deaths=deaths)
        for _ in deaths:
            with ward.worker() as worker:
                ward.wait_for_death(worker)
            clock.travel(seconds=5)
        with ward.worker():
            assert handle.result(60) == len(deaths) + 1
    assert effects.read_text().split() == ["0", "1", "1", "2"]


async def test_a_sleeping_or_waiting_job_releases_the_only_slot(
    harness: WorkerHarness, clock: Clock
) -> None:
    @harness.app.job(isolation="inline")
    async def patient(ctx: Context) -> str:
        await ctx.sleep(3600)
        event = await ctx.wait_for_event("word", timeout=3600)
        return str(event.data["said"])

    @harness.app.job(isolation="inline")
    async def quick() -> None: ...

    harness.register()
    async with harness.running_worker(queues={"default": 1}):
        waiting = harness.enqueue("patient")
        await harness.wait_for_state(waiting, State.SCHEDULED)
        await harness.wait_for_state(harness.enqueue("quick"))
        clock.travel(hours=1)
        await eventually(lambda: len(harness.attempts(waiting)) == 2)
        await harness.wait_for_state(waiting, State.SCHEDULED)
        await harness.wait_for_state(harness.enqueue("quick"))
        assert call_for_value(
            harness.conn,
            "jobforge_private.resume_waits",
            tenant_id=TENANT_A,
            event_id=uuid4(),
            name="word",
            data={"said": "hello"},
        )
        history = await harness.wait_for_state(waiting)
    assert history.job.result == "hello"
    assert history.job.attempt == 1
    assert harness.outcomes(waiting) == [Outcome.SNOOZED, Outcome.SNOOZED, Outcome.SUCCEEDED]
    steps = [event.data["kind"] for event in history.events if event.kind == "step"]
    assert steps == ["sleep", "event"]


async def test_an_event_emitted_before_the_wait_is_found_by_the_scheduler_of_the_worker(
    harness: WorkerHarness,
) -> None:
    @harness.app.job(isolation="inline")
    async def shipped(ctx: Context) -> list[str]:
        found = [
            await ctx.wait_for_event("shipped", {"order.id": 7}, timeout=3600),
            await ctx.wait_for_event(
                "shipped", timeout=3600, since=datetime.now(UTC) - timedelta(days=1)
            ),
        ]
        return [str(event.data["by"]) for event in found]

    harness.register()
    job_id = harness.enqueue("shipped")
    for number, by in ((6, "rail"), (7, "sea"), (7, "air")):
        harness.app.emit("shipped", {"order": {"id": number}, "by": by}, tenant=TENANT_A)
    async with harness.running_worker(), running_scheduler(harness.database):
        history = await harness.wait_for_state(job_id)
    assert history.job.result == ["sea", "rail"]


async def test_a_worker_without_the_lease_stores_no_step(harness: WorkerHarness) -> None:
    may_go, reported = asyncio.Event(), list[type[BaseException]]()

    @harness.app.job(isolation="inline", retry=Retry(base=3600))
    async def late(ctx: Context) -> None:
        await may_go.wait()
        try:
            await ctx.astep("late", lambda: None)
        except BaseException as error:
            reported.append(type(error))
            raise

    harness.register()
    async with harness.running_worker(heartbeat_s=30, lease_s=60):
        job_id = harness.enqueue("late")
        await harness.wait_for_state(job_id, State.RUNNING)
        # another worker's lease by now
        harness.conn.execute("update jobforge.jobs set lease = lease + 1")
        may_go.set()
        await eventually(lambda: bool(reported))
    assert reported == [asyncio.CancelledError]  # as after any loss of a lease
    assert not harness.conn.execute("select from jobforge.steps").rowcount


async def test_a_step_survives_an_outage_of_the_database(harness: WorkerHarness) -> None:
    may_go, runs = asyncio.Event(), list[int]()

    @harness.app.job(isolation="inline", retry=1)
    async def enduring(ctx: Context) -> None:
        await may_go.wait()
        await ctx.astep("count", runs.append, 1)

    harness.register()
    async with harness.running_worker(lease_s=60, heartbeat_s=10):
        job_id = harness.enqueue("enduring")
        await harness.wait_for_state(job_id, State.RUNNING)
        allow_connections(harness.conn, are_allowed=False)
        cut_connections(harness.conn)
        may_go.set()
        await eventually(lambda: bool(runs))
        allow_connections(harness.conn, are_allowed=True)
        await harness.wait_for_state(job_id)
    assert runs == [1]


async def test_an_invalid_step_does_not_affect_others(
    harness: WorkerHarness,
) -> None:
    @harness.app.job(isolation="inline")
    async def mixed(ctx: Context) -> list[str]:
        bad = SaveStep("caf\udce9", 0, 1)
        ask = ctx._channel.request_async  # noqa: SLF001 - ctx itself refuses the name
        asked = ask(bad), *(ctx.astep(f"{n}", one) for n in range(5))
        return [
            type(each).__name__ for each in await asyncio.gather(*asked, return_exceptions=True)
        ]

    @harness.app.job(isolation="inline", retry=Retry(max_attempts=1))
    async def misnamed(ctx: Context) -> None:
        await ctx.astep("caf\udce9", one)

    async def one() -> int:
        return 1

    harness.register()
    async with harness.running_worker():
        job_id = harness.enqueue("mixed")
        await eventually(lambda: harness.state(job_id) is State.SUCCEEDED)
        assert harness.history(job_id).job.result == ["Invalid", *["int"] * 5]
        job_id = harness.enqueue("misnamed")
        await eventually(lambda: harness.state(job_id) is State.DEAD)
        error = harness.history(job_id).attempts[-1].error
        assert error is not None
        assert error["message"].startswith("name cannot be written")
