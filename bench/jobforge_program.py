"""Our side of the bench: the program that enqueues, for the app that `jobforge worker` runs."""

import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import psycopg
from app import isolated, jf, noop
from side_program import Client, Program, main

from jobforge.connectors.registry import connector_registrations
from jobforge.db.migrate import migrate

_SMALL_TENANTS = int(os.environ.get("BENCH_TENANTS", "0"))
_BARE = "insert into bare (n) values (%s)"


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
    definition = isolated if os.environ.get("BENCH_ISOLATED") else noop
    small = [noop.using(tenant=UUID(int=2 + number)) for number in range(_SMALL_TENANTS)]
    with jf.connected_to(url), psycopg.connect(url, autocommit=True) as conn:
        jf.register()  # as an app does when it starts; from here on it is connected

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
