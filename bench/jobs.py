"""Our side of the bench: the app that `jobforge worker` runs, and the program that enqueues."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import psycopg
from marks import mark
from program import Client, Program, main

from jobforge import Context, JobForge
from jobforge.connectors.registry import connector_registrations
from jobforge.migrate import migrate

TENANT = UUID(int=1)
_SMALL_TENANTS = int(os.environ.get("JOBFORGE_BENCH_TENANTS", "0"))
_BARE = "insert into bare (n) values (%s)"

jf = JobForge(tenant=TENANT)


@jf.job(isolation="inline")
async def noop(n: int) -> None:
    mark(n)


@jf.job(isolation="inline")
async def held(n: int) -> None:
    """Runs until its worker ends."""
    mark(n)
    await asyncio.Event().wait()


@jf.job(queue="isolated")
def isolated(n: int) -> None:
    """A no-op in a process of its own."""


@jf.job(queue="isolated")
def sleeper(ctx: Context, pid_file: str, *, is_deaf: bool) -> None:
    """Waits to be canceled; a deaf one does not look whether it is."""
    path = Path(pid_file)
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(60 if is_deaf else 0.005)
        ctx.check()


async def install(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        migrate(conn)
        conn.execute(
            "create table bare (id bigint generated always as identity primary key, n int)"
        )
    with jf.connected_to(url):
        jf.register()
        # As a worker does: then it finds them known, and does not wait where jobs are locked.
        for call in connector_registrations():
            jf.client.run(call)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    definition = isolated if os.environ.get("JOBFORGE_BENCH_ISOLATED") else noop
    small = [noop.using(tenant=UUID(int=2 + number)) for number in range(_SMALL_TENANTS)]
    with jf.connected_to(url), psycopg.connect(url, autocommit=True) as conn:

        async def enqueue(number: int) -> None:
            definition.enqueue(n=number)

        async def enqueue_for_one(number: int) -> None:
            random.choice(small).enqueue(n=number)  # noqa: S311 - any of them

        async def enqueue_many(numbers: Sequence[int]) -> None:
            definition.enqueue_many([definition.args(n=number) for number in numbers])

        async def insert_bare(number: int) -> None:
            conn.execute(_BARE, [number])

        yield Client(enqueue_for_one if small else enqueue, enqueue_many, insert_bare)


def work(url: str) -> None:
    raise NotImplementedError(f"jobforge worker does: {url}")


if __name__ == "__main__":
    main(Program(install, client, work))
