"""The application whose workers the tests kill: its handlers write marks (see oracle.py).

A mark is written before and after the work and every few milliseconds during it, so that the file
shows which handlers ran at the same time, whatever the outcome of their attempts.
"""

import asyncio
import os
import subprocess
import time
from pathlib import Path

from jobforge import Context, JobForge, Retry

jf = JobForge()

_TICK_S = 0.02
# Kills use up attempts; no job may fail permanently because of them.
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
    """Work for this many seconds; fail the first attempts, up to `failures`."""
    mark(ctx, marks, "enter")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(min(_TICK_S, seconds))
        mark(ctx, marks, "tick")
    if ctx.attempt <= failures:
        raise RuntimeError("as requested")
    mark(ctx, marks, "exit")
    return ctx.attempt


@jf.job(queue="faults", timeout=600, retry=_AGAIN)
def hold(ctx: Context, marks: str, gate: str) -> int:
    """Work until a file appears."""
    mark(ctx, marks, "enter")
    while not Path(gate).exists():
        time.sleep(_TICK_S)
        mark(ctx, marks, "tick")
    mark(ctx, marks, "exit")
    return ctx.attempt


@jf.job(queue="faults", timeout=600, retry=_AGAIN)
def hold_with_child(ctx: Context, marks: str, gate: str) -> int:
    """Work as `hold` does, with a child process that has left the session."""
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
    """Work as `work` does, in the worker's event loop."""
    mark(ctx, marks, "enter")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await asyncio.sleep(min(_TICK_S, seconds))
        mark(ctx, marks, "tick")
    if ctx.attempt <= failures:
        raise RuntimeError("as requested")
    mark(ctx, marks, "exit")
    return ctx.attempt
