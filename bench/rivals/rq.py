"""rq on Redis: no results. SimpleWorker runs jobs itself; for isolated jobs Worker forks."""
# mypy: disable-error-code="import-not-found"
# The package is not installed where types are checked.

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from redis import Redis
from rq import Queue, SimpleWorker, Worker
from side_program import Client, Program, main
from start_times import record_start

_BATCH = 5_000
_NOOP = "rivals.rq.noop"


def noop(n: int) -> None:
    record_start(n)


async def install(url: str) -> None:
    """Do nothing: Redis needs no schema."""


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    queue = Queue(connection=Redis.from_url(url))

    async def enqueue(number: int) -> None:
        queue.enqueue(_NOOP, kwargs={"n": number}, result_ttl=0)

    async def enqueue_many(numbers: Sequence[int]) -> None:
        for first in range(0, len(numbers), _BATCH):
            some = numbers[first : first + _BATCH]
            queue.enqueue_many(
                [Queue.prepare_data(_NOOP, kwargs={"n": n}, result_ttl=0) for n in some]
            )

    yield Client(enqueue, enqueue_many)


def work(url: str) -> None:
    kind = Worker if os.environ.get("BENCH_ISOLATED") else SimpleWorker
    connection = Redis.from_url(url)
    kind([Queue(connection=connection)], connection=connection).work(logging_level="WARNING")


if __name__ == "__main__":
    main(Program(install, client, work))
