"""saq on Redis: 50 jobs at once, no results."""
# mypy: disable-error-code="import-not-found"
# The package is not installed where types are checked.

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import uvloop
from redis.asyncio import Redis
from saq import Worker
from saq.queue.redis import RedisQueue
from side_program import Client, Program, main
from start_times import record_start

_AT_ONCE = 50


async def noop(ctx: object, *, n: int) -> None:  # noqa: ARG001 - saq passes it
    record_start(n)


async def install(url: str) -> None:
    """Do nothing: Redis needs no schema."""


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    queue = RedisQueue(Redis.from_url(url))

    async def enqueue(number: int) -> None:
        await queue.enqueue("noop", n=number, ttl=-1)

    async def enqueue_many(numbers: Sequence[int]) -> None:
        for first in range(0, len(numbers), _AT_ONCE):
            some = numbers[first : first + _AT_ONCE]
            await asyncio.gather(*(enqueue(number) for number in some))

    yield Client(enqueue, enqueue_many)
    await queue.disconnect()


def work(url: str) -> None:
    uvloop.run(_work(url))


async def _work(url: str) -> None:
    queue = RedisQueue(Redis.from_url(url))
    await Worker(queue, [noop], concurrency=_AT_ONCE).start()


if __name__ == "__main__":
    main(Program(install, client, work))
