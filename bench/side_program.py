"""What the program of a side does: `install`, `work`, and the commands that measure.

`bulk N`, `single N`, `latency N` and `steady RATE SECONDS`. Each side has such a program, ours
(jobs.py) as well as each rival's (rivals/), and runs it in its own environment. The answer is one
line of JSON. Programs for Node have the same in program.mjs.
"""

import asyncio
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

import start_times

Answer = dict[str, float | list[float]]

GATE = "BENCH_GATE"  # a file: programs that are ready wait until it is there

_WARM = 20  # singles before the clock starts
_CHUNK = 100
_GAP_S = (0.02, 0.08)  # between a job that has started and the next
_TICK_S = 0.01  # a steady load comes in so many small batches
_LONGEST_S = 30


class Client(NamedTuple):
    """How a side enqueues: one job, many at once, and what its driver takes for a bare insert."""

    enqueue: Callable[[int], Awaitable[None]]
    enqueue_many: Callable[[Sequence[int]], Awaitable[None]]
    insert_bare: Callable[[int], Awaitable[None]] | None = None


class Program(NamedTuple):
    """A side; each function takes the URL of Postgres or Redis."""

    install: Callable[[str], Awaitable[None]]
    client: Callable[[str], AbstractAsyncContextManager[Client]]
    work: Callable[[str], None]  # until it is killed


def main(program: Program) -> None:
    command, url, *numbers = sys.argv[1:]
    if command == "work":
        program.work(url)
        return
    print(json.dumps(run(_answer(program, command, url, [int(each) for each in numbers]))))


def run(answer: Coroutine[object, object, Answer]) -> Answer:
    """With uvloop where the side has it."""
    try:
        loop_factory = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        loop_factory = None
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(answer)


async def _answer(program: Program, command: str, url: str, numbers: list[int]) -> Answer:
    if command == "install":
        await program.install(url)
        return {}
    async with program.client(url) as client:
        return await _MEASURES[command](client, *numbers)


async def _bulk(client: Client, count: int) -> Answer:
    start = time.perf_counter()
    await client.enqueue_many(range(count))
    return {"seconds": time.perf_counter() - start}


async def _single(client: Client, count: int) -> Answer:
    """In chunks, in turn with bare inserts where the side measures these and is alone."""
    insert_bare = None if os.environ.get(GATE) else client.insert_bare
    await _timed(client.enqueue, _WARM)
    if insert_bare is not None:
        await _timed(insert_bare, _WARM)
    await _gate()
    began = time.time()
    seconds = bare = 0.0
    for _ in range(0, count, _CHUNK):
        seconds += await _timed(client.enqueue, min(_CHUNK, count))
        if insert_bare is not None:
            bare += await _timed(insert_bare, min(_CHUNK, count))
    return {"seconds": seconds, "bare_seconds": bare, "began": began, "ended": time.time()}


async def _timed(enqueue: Callable[[int], Awaitable[None]], count: int) -> float:
    start = time.perf_counter()
    for number in range(count):
        await enqueue(number)
    return time.perf_counter() - start


async def _gate() -> None:
    """Waits for the others, where there are any."""
    path = os.environ.get(GATE)
    if path is None:
        return
    gate = Path(path)
    _ready(gate)
    deadline = time.monotonic() + _LONGEST_S
    while not _is_open(gate):
        if time.monotonic() > deadline:
            raise TimeoutError("the gate did not open")
        await asyncio.sleep(0.001)


def _ready(gate: Path) -> None:
    gate.with_suffix(f".{os.getpid()}").touch()


def _is_open(gate: Path) -> bool:
    return gate.exists()


async def _latency(client: Client, count: int) -> Answer:
    """From the call to enqueue until the handler starts, one job after the other."""
    path = Path(os.environ[start_times.FILE])
    await client.enqueue(0)
    await _started(path, 1)
    sent = []
    for number in range(count):
        await asyncio.sleep(random.uniform(*_GAP_S))  # noqa: S311 - a pause, not a secret
        sent.append(time.time())
        await client.enqueue(number)
        await _started(path, number + 2)
    started = start_times.read(path)[1:]
    return {"latencies": [at - by for at, by in zip(started, sent, strict=True)]}


async def _started(path: Path, jobs: int) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while start_times.count(path) < jobs:
        if time.monotonic() > deadline:
            raise TimeoutError(f"job {jobs} has not started within {_LONGEST_S} s")
        await asyncio.sleep(0.001)


async def _steady(client: Client, rate: int, seconds: int) -> Answer:
    """Small batches at a fixed pace; each job carries the time of the call that sent it."""
    batch = max(1, round(rate * _TICK_S))
    start = time.perf_counter()
    sent = 0
    while sent < rate * seconds:
        await asyncio.sleep(max(0, start + sent / rate - time.perf_counter()))
        if batch == 1:
            await client.enqueue(start_times.sent_now())
        else:
            await client.enqueue_many([start_times.sent_now()] * batch)
        sent += batch
    return {"sent": sent, "seconds": time.perf_counter() - start}


_MEASURES: dict[str, Callable[..., Awaitable[Answer]]] = {
    "bulk": _bulk,
    "single": _single,
    "latency": _latency,
    "steady": _steady,
}
