"""Durable steps under real workers: killed, frozen out of their lease, cut off, with one slot."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from cluster import Clock, Connection, Database
from integration.call_setup import TENANT_A
from integration.killable_workers import opened_ward
from integration.worker_harness import Workshop, cut, eventually, scheduling, set_open
from sql.engine import call_for_value

from jobforge import Context, Retry
from jobforge.types.jobs import Outcome, State

pytestmark = pytest.mark.anyio


@pytest.fixture
def shop(database: Database, conn: Connection) -> Workshop:
    return Workshop(database, conn)


# Before, within, between and after the steps.
EVERYWHERE = [1, 2, 3, 4, 5, 6, 7]


def test_finished_steps_survive_the_death_of_their_process_anywhere(
    database: Database, conn: Connection, clock: Clock, folder: Path
) -> None:
    effects = folder / "effects"
    with opened_ward(database, conn, clock, folder) as ward, ward.worker():
        handle = ward.enqueue("walk_apart", path=str(effects), deaths=EVERYWHERE)
        assert handle.result(60) == len(EVERYWHERE) + 1
    # Each ran again once: it had its effect, and was killed before it was stored.
    assert effects.read_text().split() == ["0", "0", "1", "1", "2", "2"]


def test_finished_steps_survive_the_death_of_their_worker(
    database: Database, conn: Connection, clock: Clock, folder: Path
) -> None:
    effects = folder / "effects"
    deaths = [3, 4, 7]
    with opened_ward(database, conn, clock, folder) as ward:
        handle = ward.enqueue("walk_inline", path=str(effects), deaths=deaths)
        for _ in deaths:
            with ward.worker() as worker:
                ward.outlive(worker)
            clock.travel(seconds=5)
        with ward.worker():
            assert handle.result(60) == len(deaths) + 1
    assert effects.read_text().split() == ["0", "1", "1", "2"]


async def test_who_sleeps_or_waits_leaves_the_only_slot_to_others(
    shop: Workshop, clock: Clock
) -> None:
    @shop.app.job(isolation="inline")
    async def patient(ctx: Context) -> str:
        await ctx.sleep(3600)
        event = await ctx.wait_for_event("word", timeout=3600)
        return str(event.data["said"])

    @shop.app.job(isolation="inline")
    async def quick() -> None: ...

    shop.register()
    async with shop.working(queues={"default": 1}):
        waiting = shop.enqueue("patient")
        await shop.ended(waiting, State.SCHEDULED)
        await shop.ended(shop.enqueue("quick"))
        clock.travel(hours=1)
        await eventually(lambda: len(shop.attempts(waiting)) == 2)
        await shop.ended(waiting, State.SCHEDULED)
        await shop.ended(shop.enqueue("quick"))
        assert call_for_value(
            shop.conn,
            "jobforge_private.resume_waits",
            tenant_id=TENANT_A,
            event_id=uuid4(),
            name="word",
            data={"said": "hello"},
        )
        history = await shop.ended(waiting)
    assert history.job.result == "hello"
    assert history.job.attempt == 1
    assert shop.outcomes(waiting) == [Outcome.SNOOZED, Outcome.SNOOZED, Outcome.SUCCEEDED]
    steps = [event.data["kind"] for event in history.events if event.kind == "step"]
    assert steps == ["sleep", "event"]


async def test_an_event_that_comes_before_the_wait_is_found_by_the_scheduler_of_the_worker(
    shop: Workshop,
) -> None:
    @shop.app.job(isolation="inline")
    async def shipped(ctx: Context) -> list[str]:
        found = [
            await ctx.wait_for_event("shipped", {"order.id": 7}, timeout=3600),
            await ctx.wait_for_event(
                "shipped", timeout=3600, since=datetime.now(UTC) - timedelta(days=1)
            ),
        ]
        return [str(event.data["by"]) for event in found]

    shop.register()
    job_id = shop.enqueue("shipped")
    for number, by in ((6, "rail"), (7, "sea"), (7, "air")):
        shop.app.emit("shipped", {"order": {"id": number}, "by": by}, tenant=TENANT_A)
    async with shop.working(), scheduling(shop.database):
        history = await shop.ended(job_id)
    assert history.job.result == ["sea", "rail"]


async def test_a_worker_that_has_lost_the_lease_stores_no_step(shop: Workshop) -> None:
    may_go, told = asyncio.Event(), list[type[BaseException]]()

    @shop.app.job(isolation="inline", retry=Retry(base=3600))
    async def late(ctx: Context) -> None:
        await may_go.wait()
        try:
            await ctx.astep("late", lambda: None)
        except BaseException as error:
            told.append(type(error))
            raise

    shop.register()
    async with shop.working(heartbeat_s=30, lease_s=60):
        job_id = shop.enqueue("late")
        await shop.ended(job_id, State.RUNNING)
        shop.conn.execute("update jobforge.jobs set lease = lease + 1")  # somebody else's by now
        may_go.set()
        await eventually(lambda: bool(told))
    assert told == [asyncio.CancelledError]  # as whenever a lease is lost
    assert not shop.conn.execute("select from jobforge.steps").rowcount


async def test_a_step_outlasts_an_outage_of_the_database(shop: Workshop) -> None:
    may_go, runs = asyncio.Event(), list[int]()

    @shop.app.job(isolation="inline", retry=1)
    async def enduring(ctx: Context) -> None:
        await may_go.wait()
        await ctx.astep("count", runs.append, 1)

    shop.register()
    async with shop.working(lease_s=60, heartbeat_s=10):
        job_id = shop.enqueue("enduring")
        await shop.ended(job_id, State.RUNNING)
        set_open(shop.conn, is_open=False)
        cut(shop.conn)
        may_go.set()
        await eventually(lambda: bool(runs))
        set_open(shop.conn, is_open=True)
        await shop.ended(job_id)
    assert runs == [1]


async def test_a_step_that_cannot_be_read_does_not_take_others_along(shop: Workshop) -> None:
    @shop.app.job(isolation="inline")
    async def mixed(ctx: Context) -> list[str]:
        bad = {"name": "caf\udce9", "index": 0, "result": 1}
        ask = ctx._channel.request_async  # noqa: SLF001 - ctx itself refuses the name
        asked = ask("save_step", bad), *(ctx.astep(f"{n}", one) for n in range(5))
        return [
            type(each).__name__ for each in await asyncio.gather(*asked, return_exceptions=True)
        ]

    @shop.app.job(isolation="inline", retry=Retry(max_attempts=1))
    async def misnamed(ctx: Context) -> None:
        await ctx.astep("caf\udce9", one)

    async def one() -> int:
        return 1

    shop.register()
    async with shop.working():
        job_id = shop.enqueue("mixed")
        await eventually(lambda: shop.state(job_id) is State.SUCCEEDED)
        assert shop.history(job_id).job.result == ["Invalid", *["int"] * 5]
        job_id = shop.enqueue("misnamed")
        await eventually(lambda: shop.state(job_id) is State.DEAD)
        error = shop.history(job_id).attempts[-1].error
        assert error is not None
        assert error["message"].startswith("name cannot be written")
