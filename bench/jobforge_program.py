"""Program of JobForge's side: installs the schema and enqueues jobs. `app.py` has the handlers."""

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
        # A worker that finds the connectors registered does not wait for the lock on the jobs.
        for call in connector_registrations():
            jf.client.run(call)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    definition = isolated if os.environ.get("BENCH_ISOLATED") else noop
    small = [noop.using(tenant=UUID(int=2 + number)) for number in range(_SMALL_TENANTS)]
    with jf.connected_to(url), psycopg.connect(url, autocommit=True) as conn:
        jf.register()  # an app does this when it starts; it also opens the connection

        async def enqueue(number: int) -> None:
            definition.enqueue(n=number)

        async def enqueue_for_any_tenant(number: int) -> None:
            random.choice(small).enqueue(n=number)  # noqa: S311 - not a secret

        async def enqueue_many(numbers: Sequence[int]) -> None:
            definition.enqueue_many([definition.args(n=number) for number in numbers])

        async def insert_bare(number: int) -> None:
            conn.execute(_BARE, [number])

        yield Client(enqueue_for_any_tenant if small else enqueue, enqueue_many, insert_bare)


def work(url: str) -> None:
    raise NotImplementedError(f"run `jobforge worker` for {url}")


if __name__ == "__main__":
    main(Program(install, client, work))
