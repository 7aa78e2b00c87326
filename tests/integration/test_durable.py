"""Durable steps, waits and children in sync and async handlers, with the test kit."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from jobforge import Context, JobForge, Retry
from jobforge.embedded import PostgresServer
from jobforge.errors import EventTimeout, Invalid, JobFailed
from jobforge.sdk.durable import DurableContext
from jobforge.sdk.handle import Handle
from jobforge.testing import Kit
from jobforge.testing.cluster import Postgres
from jobforge.testing.kit import open_kit
from jobforge.types.jobs import State

PAGE = Path(__file__).parents[2] / "docs" / "steps.md"

jf = JobForge(database_url="postgresql://nobody@127.0.0.1:1/nowhere", tenant=uuid4())
done: list[str] = []
fail: dict[str, int] = {}


@dataclass(frozen=True)
class Receipt:
    number: int
    at: datetime


def charge(number: int) -> Receipt:
    done.append(f"charge {number}")
    return Receipt(number, datetime(2026, 1, 2, tzinfo=UTC))


async def notify(to: str) -> tuple[str, int]:
    await asyncio.sleep(0)
    done.append(f"notify {to}")
    return to, len(done)


def fails(name: str) -> None:
    """Fail as often as the test has planned."""
    if fail.get(name):
        fail[name] -= 1
        raise OSError(name)


@jf.job(retry=Retry(max_attempts=3, base=1))
def order(ctx: Context) -> str:
    receipt = ctx.step("charge", charge, 7)
    again = ctx.step("charge", charge, number=8)
    fails("after")
    assert isinstance(receipt, Receipt)
    return f"{receipt.number} {again.at:%Y}"


@jf.job(retry=Retry(max_attempts=3, base=1), isolation="inline")
async def greet(ctx: Context) -> list[str]:
    output = await asyncio.gather(*(ctx.step("notify", notify, to) for to in ("ada", "bob")))
    receipt = await ctx.astep("charge", charge, 1)
    odd = await ctx.astep("odd", lambda: notify("eve"))
    fails("after")
    assert receipt == Receipt(1, datetime(2026, 1, 2, tzinfo=UTC))
    assert isinstance(output[0], tuple)
    return [to for to, _ in output] + [odd[0]]


@jf.job
def nap(ctx: Context, until: datetime | None = None) -> int:
    ctx.step("before", done.append, "before")
    ctx.sleep(timedelta(days=1))
    ctx.step("between", done.append, "between")
    if until is not None:
        ctx.sleep_until(until)
    return ctx.attempt


@jf.job
async def pay(ctx: Context, number: int) -> str:
    try:
        event = await ctx.wait_for_event("paid", {"order.number": number}, timeout=3600)
    except EventTimeout:
        return "never"
    return str(event.data["by"])


@jf.job(retry=1)
def square(number: int) -> int:
    done.append(f"square {number}")
    if number < 0:
        raise ValueError(number)
    return number * number


@jf.job
def total(ctx: Context, numbers: list[int]) -> int:
    first = ctx.enqueue(square, numbers[0])
    others = ctx.enqueue_many(square, [square.args(number) for number in numbers[1:]])
    fails("after")
    return sum(ctx.gather([first, *others]))


@jf.job(isolation="inline")
async def total_of_good(ctx: Context, numbers: list[int]) -> list[str]:
    handles = [await ctx.aenqueue(square, number) for number in numbers]
    answers = await ctx.gather(handles, return_failures=True)
    return ["failed" if isinstance(answer, JobFailed) else str(answer) for answer in answers]


@jf.job
def boast(ctx: Context) -> str:
    return ctx.step("boast", lambda: "x" * (1 << 20))


@pytest.fixture(scope="module")
def kit(server: PostgresServer) -> Iterator[Kit]:
    with open_kit(Postgres(server.url(), is_durable=False)) as kit:
        kit.use(jf)
        yield kit


@pytest.fixture(autouse=True)
def _forgotten(kit: Kit) -> Iterator[None]:
    done.clear()
    fail.clear()
    yield
    kit.drain()


def emit(kit: Kit, handle: Handle[Any], name: str, data: Any) -> int:
    """Emit an event and dispatch it to the job's wait."""
    with psycopg.connect(kit.url, user="postgres", options="-c role=none") as conn:
        row = conn.execute(
            "select jobforge_private.resume_waits(%s, %s, %s, %s)",
            [handle.tenant_id, uuid4(), name, Jsonb(data)],
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_finished_steps_are_not_repeated_and_return_their_stored_results(kit: Kit) -> None:
    handle = order.enqueue()
    fail["after"] = 2
    drained = kit.drain()
    assert (drained.failed, drained.succeeded) == (2, 1)
    assert done == ["charge 7", "charge 8"]
    assert handle.result() == "7 2026"


def test_steps_of_async_handlers_are_numbered_in_call_order(kit: Kit) -> None:
    handle = greet.enqueue()
    fail["after"] = 1
    kit.drain()
    assert sorted(done) == ["charge 1", "notify ada", "notify bob", "notify eve"]
    assert handle.result() == ["ada", "bob", "eve"]


def test_a_sleep_resumes_after_its_time_and_uses_no_attempt(kit: Kit) -> None:
    handle = nap.enqueue(until=kit.now() + timedelta(days=3))
    started = kit.now()
    drained = kit.drain()
    assert (drained.snoozed, drained.succeeded) == (2, 1)
    assert done == ["before", "between"]
    assert handle.result() == 1
    assert timedelta(days=3) <= kit.now() - started < timedelta(days=3, minutes=1)


def test_an_event_resumes_the_job_and_a_wait_without_one_times_out(kit: Kit) -> None:
    lucky, unlucky = pay.enqueue(1), pay.enqueue(2)
    kit.drain(with_scheduled=False)
    assert emit(kit, lucky, "paid", {"order": {"number": 1}, "by": "ada"}) == 1
    kit.drain()
    assert lucky.result() == "ada"
    assert unlucky.result() == "never"


def test_children_are_created_once_and_gathered(kit: Kit) -> None:
    handle = total.enqueue([1, 2, 3])
    fail["after"] = 1
    kit.drain()
    assert handle.result() == 14
    assert done == ["square 1", "square 2", "square 3"]


def test_failed_children_raise_or_are_returned(kit: Kit) -> None:
    bad, good = total.enqueue([1, -1]), total_of_good.enqueue([3, -1, 4])
    kit.drain()
    assert bad.job().state is State.DEAD
    assert (bad.job().error or {})["type"] == "ChildFailed"
    assert bad.job().attempt == 1
    assert good.result() == ["9", "failed", "16"]


def test_a_result_above_the_limit_is_a_final_failure_that_names_it(kit: Kit) -> None:
    handle = boast.enqueue()
    drained = kit.drain()
    assert (drained.dead, drained.failed) == (1, 0)
    error = handle.job().error or {}
    assert error["type"] == "InvalidResult"
    assert "1,048,576" in error["message"]


def test_a_step_of_the_wrong_kind_of_function_is_an_error(kit: Kit) -> None:
    @jf.job(key="mixed_up")
    async def mixed_up(ctx: Context) -> None:
        with pytest.raises(Invalid, match="astep"):
            ctx.step("charge", charge, 1)

    @jf.job(key="sync_mixed_up")
    def sync_mixed_up(ctx: Context) -> None:
        with pytest.raises(Invalid, match="async handler"):
            _ = ctx.step("notify", lambda: notify("ada"))

    kit.run(mixed_up)
    kit.run(sync_mixed_up)
    with pytest.raises(Invalid, match="drained"):
        kit.run(nap)


def test_the_page_about_steps_runs_and_names_every_call() -> None:
    page = PAGE.read_text(encoding="utf-8")
    examples = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    exec(compile(examples, str(PAGE), "exec"), {"__name__": "page"})  # noqa: S102 - our own page
    calls = {name for name in vars(DurableContext) if not name.startswith("_")}
    assert {name for name in calls if name not in page} == set()
