"""procrastinate: async tasks, ten at once, fetched one by one."""
# mypy: disable-error-code="import-not-found,untyped-decorator"
# The package is not installed where types are checked.

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from procrastinate import App, PsycopgConnector
from side_program import Client, Program, main
from start_times import record_start

_BATCH = 5_000
app = App(connector=PsycopgConnector())


@app.task(name="noop")
async def noop(n: int) -> None:
    record_start(n)


async def install(url: str) -> None:
    async with _open(url) as opened:
        await opened.schema_manager.apply_schema_async()


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    async with _open(url) as opened:
        task = opened.tasks["noop"]

        async def enqueue(number: int) -> None:
            await task.defer_async(n=number)

        async def enqueue_many(numbers: Sequence[int]) -> None:
            for first in range(0, len(numbers), _BATCH):
                some = numbers[first : first + _BATCH]
                await task.batch_defer_async(*({"n": n} for n in some))

        yield Client(enqueue, enqueue_many)


def work(url: str) -> None:
    asyncio.run(_work(url))


async def _work(url: str) -> None:
    async with _open(url) as opened:
        await opened.run_worker_async(concurrency=10, install_signal_handlers=False)


@asynccontextmanager
async def _open(url: str) -> AsyncIterator[App]:
    with app.replace_connector(PsycopgConnector(conninfo=url)) as opened:
        async with opened.open_async():
            yield opened


if __name__ == "__main__":
    main(Program(install, client, work))
