"""absurd: 50 tasks at once in batches of 50, polled every 100 ms (no notification)."""
# mypy: disable-error-code="import-not-found,untyped-decorator"
# The package is not installed where types are checked.

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import psycopg
import uvloop
from absurd_sdk import AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL
from side_program import Client, Program, main
from start_times import record_start

_BATCH = 1_000
_QUEUE = "noop"


async def install(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute(BUNDLED_SCHEMA_SQL)
    app = AsyncAbsurd(url, queue_name=_QUEUE)
    await app.create_queue()
    await app.close()


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        app = AsyncAbsurd(conn, queue_name=_QUEUE)

        async def enqueue(number: int) -> None:
            await app.spawn("noop", {"n": number}, queue=_QUEUE)

        async def enqueue_many(numbers: Sequence[int]) -> None:
            for first in range(0, len(numbers), _BATCH):
                async with conn.transaction():
                    for number in numbers[first : first + _BATCH]:
                        await enqueue(number)

        yield Client(enqueue, enqueue_many)


def work(url: str) -> None:
    uvloop.run(_work(url))


async def _work(url: str) -> None:
    app = AsyncAbsurd(url, queue_name=_QUEUE)

    @app.register_task("noop")
    async def noop(params: dict[str, int], ctx: object) -> None:  # noqa: ARG001 - absurd calls it with both
        record_start(params["n"])

    await app.start_worker(concurrency=50, batch_size=50, poll_interval=0.1)


if __name__ == "__main__":
    main(Program(install, client, work))
