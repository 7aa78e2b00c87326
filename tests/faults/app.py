"""The application whose workers the tests kill: its handlers leave marks (see oracle.py).

A mark is written before and after the work and every few milliseconds during it, so that the file
shows which runs were at work at the same time, whatever became of them.
"""

import asyncio
import os
import subprocess
import time
from pathlib import Path

from jobforge import Context, JobForge, Retry

jf = JobForge()

_TICK_S = 0.02
# Kills use attempts up; no job shall be dead because of them.
_AGAIN = Retry(max_attempts=1000, base=0.05, cap=0.2)


def mark(ctx: Context, marks: str, what: str, pid: int | None = None) -> None:
    job, _, lease = ctx.fence.rpartition(".")
    at = time.clock_gettime(time.CLOCK_BOOTTIME)
    line = f"{job} {lease} {what} {pid or os.getpid()} {at:.6f}\n"
    file = os.open(marks, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


@jf.job(queue="faults", timeout=600, retry=_AGAIN)
def work(ctx: Context, marks: str, seconds: float, failures: int = 0) -> int:
    """Works for so long; the first attempts fail, as many as wanted."""
    mark(ctx, marks, "enter")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(min(_TICK_S, seconds))
        mark(ctx, marks, "tick")
    if ctx.attempt <= failures:
        raise RuntimeError("as it was told to")
    mark(ctx, marks, "exit")
    return ctx.attempt


@jf.job(queue="faults", timeout=600, retry=_AGAIN)
def hold(ctx: Context, marks: str, gate: str) -> int:
    """Works until a file appears."""
    mark(ctx, marks, "enter")
    while not Path(gate).exists():
        time.sleep(_TICK_S)
        mark(ctx, marks, "tick")
    mark(ctx, marks, "exit")
    return ctx.attempt


@jf.job(queue="faults", timeout=600, retry=_AGAIN)
def brood(ctx: Context, marks: str, gate: str) -> int:
    """As `hold`, with a process of its own that left the session."""
    mark(ctx, marks, "enter")
    with subprocess.Popen(["/bin/sleep", "100"], start_new_session=True) as stray:
        mark(ctx, marks, "spawn", stray.pid)
        while not Path(gate).exists():
            time.sleep(_TICK_S)
        stray.kill()
    mark(ctx, marks, "exit")
    return ctx.attempt


@jf.job(queue="faults", timeout=600, retry=_AGAIN, isolation="inline")
async def light(ctx: Context, marks: str, seconds: float, failures: int = 0) -> int:
    """As `work`, in the worker's loop."""
    mark(ctx, marks, "enter")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await asyncio.sleep(min(_TICK_S, seconds))
        mark(ctx, marks, "tick")
    if ctx.attempt <= failures:
        raise RuntimeError("as it was told to")
    mark(ctx, marks, "exit")
    return ctx.attempt
