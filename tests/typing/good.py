"""Code that type checkers must accept, and the types that they must infer.

It is checked, never run.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type
from uuid import UUID

from pydantic import BaseModel

from jobforge import (
    AsyncClient,
    BatchHandle,
    Client,
    Context,
    Handle,
    JobForge,
    Node,
    Rate,
    Retry,
    WorkflowHandle,
)
from jobforge.errors import ChildFailed
from jobforge.sdk.step_log import ReceivedEvent
from jobforge.types.job_history import JobEvent
from jobforge.types.jobs import Enqueued, Job, JobListing, JobRequest, State

jf = JobForge(tenant="acme")


class Order(BaseModel):
    number: int


@jf.job
def add(left: int, right: int = 1) -> int:
    return left + right


@jf.job
async def fetch(url: str) -> bytes:
    return url.encode()


@jf.job(queue="mail", retry=Retry(max_attempts=8), timeout=timedelta(minutes=1), memory="256MB")
async def send(ctx: Context, to: str, *, copy: bool = False) -> str:
    await ctx.progress(1, 1)
    return f"{to}{copy}"


@jf.job(key="reports.ship", version=2, isolation="process", rate=Rate(10, period_s=60))
def ship(ctx: Context, order: Order) -> Order:
    ctx.check()
    return order


@jf.job(retry=3)
def tick() -> None: ...


@ship.upgrade(from_version=1)
def renumber(old: dict[str, int]) -> dict[str, int]:
    return {"number": old["id"]}


@send.on_success
async def sent(ctx: Context, result: str) -> None:
    ctx.log.info(result)


@jf.on_fail
def failed(ctx: Context, error: dict[str, object]) -> None:
    ctx.log.error("failed", error=error)


def enqueue() -> None:
    assert_type(add.enqueue(1, right=2), Handle[int])
    assert_type(add.enqueue(1).result(), int)
    assert_type(fetch.enqueue("x").result(timeout=5), bytes)
    assert_type(send.enqueue("ada", copy=True), Handle[str])
    assert_type(ship.enqueue(Order(number=1)).result(), Order)
    assert_type(tick.enqueue(), Handle[None])
    assert_type(tick.enqueue().wait(1.5), Job)
    assert_type(send.enqueue(to="ada").tenant_id, UUID)
    later = send.using(
        tenant="acme", key="welcome", dedupe=timedelta(hours=1), at=datetime.now(UTC), tags=["a"]
    )
    assert_type(later.using(priority=3, dedupe="active").enqueue("ada"), Handle[str])
    many = [add.args(1), add.args(left=2, right=3), add.using(key="k").args(3)]
    assert_type(add.using(tenant=UUID(int=1)).enqueue_many(many), list[Handle[int]])


async def fetched(url: str, *, times: int = 1) -> bytes:
    return url.encode() * times


def measured(text: str) -> int:
    return len(text)


def durable(ctx: Context) -> None:
    assert_type(ctx.step("measure", measured, "text"), int)
    assert_type(ctx.step("measure", lambda: "x"), str)
    ctx.sleep(timedelta(hours=1))
    ctx.sleep_until(datetime.now(UTC))
    assert_type(ctx.wait_for_event("paid", {"order.id": 7}, timeout=60), ReceivedEvent)
    child = ctx.enqueue(add, 1, right=2)
    assert_type(child, Handle[int])
    assert_type(ctx.enqueue(send.using(key="k"), "ada"), Handle[str])
    many = ctx.enqueue_many(add, [add.args(1), add.args(2)])
    assert_type(list(ctx.gather([child, *many])), list[int])
    assert_type(list(ctx.gather(many, return_failures=True)), list[int | ChildFailed])


async def adurable(ctx: Context) -> None:
    assert_type(await ctx.step("fetch", fetched, "x", times=2), bytes)
    assert_type(await ctx.astep("fetch", fetched, "x"), bytes)
    assert_type(await ctx.astep("measure", measured, text="x"), int)
    await ctx.sleep(1)
    assert_type((await ctx.wait_for_event("paid", timeout=60)).id, UUID)
    child = await ctx.aenqueue(add, 1)
    assert_type(child, Handle[int])
    many = await ctx.aenqueue_many(add, [add.args(1)])
    assert_type(list(await ctx.gather([child, *many])), list[int])


async def aenqueue(ctx: Context) -> None:
    assert_type(await send.aenqueue("ada"), Handle[str])
    assert_type(await (await fetch.aenqueue(url="x")).aresult(), bytes)
    assert_type(await tick.using(delay=3).aenqueue_many([tick.args()]), list[Handle[None]])
    async with jf.transaction(tenant="acme") as tx:
        await tx.execute("select 1")
        await send.using(conn=tx).aenqueue("ada")
    assert_type(await send(ctx, "ada"), str)
    assert_type(await fetch("x"), bytes)
    assert_type(ship(ctx, Order(number=1)), Order)
    assert_type(add(1, 2), int)


def over_http(client: Client) -> None:
    assert_type(client.enqueue_job(JobRequest("add", {"left": 1})), Enqueued)
    assert_type(client.list_jobs(limit=3), list[JobListing])


async def over_http_async(client: AsyncClient, job_id: UUID) -> None:
    assert_type(await client.cancel_job(job_id, reason="no"), State)


def by_id(job_id: UUID) -> None:
    assert_type(jf.job_of(job_id), Handle[Any])
    assert_type(add.enqueue(1).retry(payload={"left": 2}), Handle[int])
    assert_type(jf.job_of(job_id).cancel("no"), State)
    assert_type(next(jf.job_of(job_id).follow()), JobEvent)


def workflows(ctx: Context, job_id: UUID) -> None:
    with jf.workflow("nightly", input={"day": 1}, on_failure=tick.args()) as wf:
        first = add.node(1, right=2)
        assert_type(first, Node[int])
        with wf.workflow("inner", after=first) as inner:
            send.node("ada")
        last = add.using(after=[first, inner], on_parent_failure="run", node="last").node(1)
    assert_type(last.handle, Handle[int])
    assert_type(wf.handle, WorkflowHandle)
    assert_type(send.using(after=[last.handle, job_id]).enqueue("ada"), Handle[str])
    with jf.batch(on_success=add.args(1), open=True) as batch:
        batch.add(add.args(1), send.args("ada"))
    assert_type(batch.handle, BatchHandle)
    assert_type(ctx.parents["first"].state, str)
    assert_type(ctx.workflow.add(add.using(node="more").args(1)), list[UUID])


async def aworkflows(ctx: Context) -> None:
    async with jf.workflow("nightly") as wf:
        add.node(1)
    assert_type((await wf.handle.adetail()).has_all_nodes, bool)
    assert_type(len(await ctx.parents), int)
