"""Commands that the program of every side has: `install`, `work`, and those that measure.

The measuring commands are `bulk N`, `single N`, `latency N` and `steady RATE SECONDS`; they print
one line of JSON. JobForge has such a program (jobforge_program.py), and so has each other job
system (rivals/), which runs it in its own environment. rivals/side_program.mjs is the same for
Node.
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

GATE = "BENCH_GATE"  # path of a file: programs that are ready wait until the file exists

_WARM = 20  # single enqueues before the measurement starts
_CHUNK = 100
_GAP_S = (0.02, 0.08)  # between the start of a job and the next enqueue
_TICK_S = 0.01  # interval between the batches of a steady load
_LONGEST_S = 30


class Client(NamedTuple):
    """How a side enqueues one job or many, and inserts a bare row with the same driver."""

    enqueue: Callable[[int], Awaitable[None]]
    enqueue_many: Callable[[Sequence[int]], Awaitable[None]]
    insert_bare: Callable[[int], Awaitable[None]] | None = None


class Program(NamedTuple):
    """The functions of a side; each takes the URL of Postgres or Redis."""

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
    """Run the coroutine, with uvloop if the side's environment has it."""
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
    """Enqueue in chunks; a single client of a side with bare inserts alternates with those."""
    insert_bare = None if os.environ.get(GATE) else client.insert_bare
    await _timed(client.enqueue, _WARM)
    if insert_bare is not None:
        await _timed(insert_bare, _WARM)
    await _wait_for_gate()
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


async def _wait_for_gate() -> None:
    """Wait until all clients are ready, if there are several."""
    path = os.environ.get(GATE)
    if path is None:
        return
    gate = Path(path)
    _report_ready(gate)
    deadline = time.monotonic() + _LONGEST_S
    while not _is_open(gate):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{gate} was not created within {_LONGEST_S} s")
        await asyncio.sleep(0.001)


def _report_ready(gate: Path) -> None:
    gate.with_suffix(f".{os.getpid()}").touch()


def _is_open(gate: Path) -> bool:
    return gate.exists()


async def _latency(client: Client, count: int) -> Answer:
    """Measure from the enqueue call until the handler starts, one job after the other."""
    path = Path(os.environ[start_times.FILE])
    await client.enqueue(0)
    await _wait_for_starts(path, 1)
    sent = []
    for number in range(count):
        await asyncio.sleep(random.uniform(*_GAP_S))  # noqa: S311 - a pause, not a secret
        sent.append(time.time())
        await client.enqueue(number)
        await _wait_for_starts(path, number + 2)
    started = start_times.read(path)[1:]
    return {"latencies": [start - call for start, call in zip(started, sent, strict=True)]}


async def _wait_for_starts(path: Path, jobs: int) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while start_times.count(path) < jobs:
        if time.monotonic() > deadline:
            raise TimeoutError(f"job {jobs} has not started within {_LONGEST_S} s")
        await asyncio.sleep(0.001)


async def _steady(client: Client, rate: int, seconds: int) -> Answer:
    """Enqueue small batches at a fixed rate; each job carries the time of its enqueue call."""
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
