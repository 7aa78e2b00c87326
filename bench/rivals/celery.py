"""celery on Redis: no results, early acknowledgement, prefetch of 1,000.

One process runs the tasks itself (solo). Isolated jobs run in two processes, which are reused for
every task (prefork).
"""
# mypy: disable-error-code="import-not-found,untyped-decorator"
# The package is not installed where types are checked.

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from celery import Celery
from side_program import Client, Program, main
from start_times import record_start

_PREFETCH = 1_000
_PREFORKED = 2

app = Celery()
app.conf.update(
    task_ignore_result=True,
    task_acks_late=False,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(n: int) -> None:
    record_start(n)


async def install(url: str) -> None:
    """Do nothing: Redis needs no schema."""


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    app.conf.broker_url = url.replace("unix://", "redis+socket://")
    with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:

        async def enqueue(number: int) -> None:
            noop.apply_async(kwargs={"n": number}, producer=producer)

        async def enqueue_many(numbers: Sequence[int]) -> None:
            for number in numbers:
                noop.apply_async(kwargs={"n": number}, producer=producer)

        yield Client(enqueue, enqueue_many)


def work(url: str) -> None:
    app.conf.broker_url = url.replace("unix://", "redis+socket://")
    is_isolated = bool(os.environ.get("BENCH_ISOLATED"))
    processes = _PREFORKED if is_isolated else 1
    app.conf.worker_prefetch_multiplier = _PREFETCH // processes
    pool = "prefork" if is_isolated else "solo"
    lean = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    app.worker_main(
        ["worker", f"--pool={pool}", f"--concurrency={processes}", "--loglevel=error", *lean]
    )


if __name__ == "__main__":
    main(Program(install, client, work))
