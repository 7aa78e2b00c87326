"""chancy: the asyncio executor, 200 jobs at once, fetching as soon as a job finishes."""
# mypy: disable-error-code="import-not-found"
# The package is not installed where types are checked.

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import uvloop
from chancy import Chancy, Job, Queue, Worker
from side_program import Client, Program, main
from start_times import record_start

_QUEUE = Queue("noop", executor=Chancy.Executor.Async, concurrency=200, eager_polling=True)
_NOOP = Job(func="rivals.chancy.noop", queue="noop")
_LOG = logging.getLogger("chancy")
_LOG.setLevel(logging.WARNING)


async def noop(n: int) -> None:
    record_start(n)


async def install(url: str) -> None:
    async with Chancy(url, log=_LOG) as app:
        await app.migrate()
        await app.declare(_QUEUE)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    async with Chancy(url, log=_LOG) as app:

        async def enqueue(number: int) -> None:
            await app.push(_NOOP.with_kwargs(n=number))

        async def enqueue_many(numbers: Sequence[int]) -> None:
            jobs = [_NOOP.with_kwargs(n=number) for number in numbers]
            async for _ in app.push_many(jobs):
                pass

        yield Client(enqueue, enqueue_many)


def work(url: str) -> None:
    uvloop.run(_work(url))


async def _work(url: str) -> None:
    async with Chancy(url, log=_LOG) as app, Worker(app) as worker:
        await worker.wait_for_shutdown()


if __name__ == "__main__":
    main(Program(install, client, work))
