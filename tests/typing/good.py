"""What type checkers must accept, and what they must know. It is checked, never run."""

from datetime import UTC, datetime, timedelta
from typing import assert_type
from uuid import UUID

from pydantic import BaseModel

from jobforge import AsyncClient, Client, Context, Handle, JobForge, Rate, Retry
from jobforge.job import Enqueued, Job, JobListing, JobRequest, State

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
