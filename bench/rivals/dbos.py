"""dbos: async workflows, 100 at once, a queue that is polled every 20 ms (no notification)."""
# mypy: disable-error-code="import-not-found,untyped-decorator"
# The package is not installed where types are checked.

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import sqlalchemy as sa
from dbos import DBOS, DBOSClient
from side_program import Client, Program, main
from start_times import record_start

_BATCH = 1_000
_QUEUE = "noop"
_NOOP = {"queue_name": _QUEUE, "workflow_name": "noop"}


@DBOS.workflow(name="noop")
async def noop(n: int) -> None:
    record_start(n)


async def install(url: str) -> None:
    await asyncio.to_thread(_launch, url)  # it must not run in a thread with an event loop
    await asyncio.to_thread(DBOS.destroy)


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    opened = DBOSClient(system_database_url=_address(url))
    engine = sa.create_engine(_address(url))

    async def enqueue(number: int) -> None:
        opened.enqueue(_NOOP, number)

    async def enqueue_many(numbers: Sequence[int]) -> None:
        for first in range(0, len(numbers), _BATCH):
            with engine.begin() as conn:
                for number in numbers[first : first + _BATCH]:
                    opened.enqueue_in_transaction(conn, _NOOP, number)

    yield Client(enqueue, enqueue_many)
    engine.dispose()
    opened.destroy()


def work(url: str) -> None:
    _launch(url)
    threading.Event().wait()


def _launch(url: str) -> None:
    DBOS(config={"name": "bench", "system_database_url": _address(url), "log_level": "ERROR"})
    DBOS.launch()
    DBOS.register_queue(_QUEUE, worker_concurrency=100, polling_interval_sec=0.02)


def _address(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


if __name__ == "__main__":
    main(Program(install, client, work))
