"""dramatiq on Redis: eight threads, no middleware for metrics or results."""
# mypy: disable-error-code="import-not-found,untyped-decorator"
# The package is not installed where types are checked.

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from side_program import Client, Program, main
from start_times import record_start

_THREADS = 8


async def install(url: str) -> None:
    """Do nothing: Redis needs no schema."""


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    noop = _actor(url)

    async def enqueue(number: int) -> None:
        noop.send(number)

    async def enqueue_many(numbers: Sequence[int]) -> None:
        for number in numbers:
            noop.send(number)

    yield Client(enqueue, enqueue_many)


def work(url: str) -> None:
    actor = _actor(url)
    dramatiq.Worker(actor.broker, worker_threads=_THREADS).start()
    threading.Event().wait()


def _actor(url: str) -> dramatiq.Actor:
    broker = RedisBroker(url=url, middleware=[])
    dramatiq.set_broker(broker)

    @dramatiq.actor
    def noop(n: int) -> None:
        record_start(n)

    return noop


if __name__ == "__main__":
    main(Program(install, client, work))
