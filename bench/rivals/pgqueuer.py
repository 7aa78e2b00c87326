"""pgqueuer: asyncpg and uvloop, batches of 500, tables that survive a crash."""
# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator"
# The package is not installed where types are checked.

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import uvloop
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from side_program import Client, Program, main
from start_times import record_start

_BATCH = 5_000


async def install(url: str) -> None:
    conn = await asyncpg.connect(url)
    await Queries(AsyncpgDriver(conn)).install()
    await conn.close()


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    conn = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(conn))

    async def enqueue(number: int) -> None:
        await queries.enqueue("noop", b'{"n": %d}' % number)

    async def enqueue_many(numbers: Sequence[int]) -> None:
        for first in range(0, len(numbers), _BATCH):
            payloads = [b'{"n": %d}' % n for n in numbers[first : first + _BATCH]]
            size = len(payloads)
            await queries.enqueue(["noop"] * size, payloads, [0] * size)

    yield Client(enqueue, enqueue_many)
    await conn.close()


def work(url: str) -> None:
    uvloop.run(_work(url))


async def _work(url: str) -> None:
    pgq = PgQueuer.from_asyncpg_connection(await asyncpg.connect(url))

    @pgq.entrypoint("noop")
    async def noop(job: Job) -> None:
        record_start(job.payload)

    await pgq.run(batch_size=500)


if __name__ == "__main__":
    main(Program(install, client, work))
