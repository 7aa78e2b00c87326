"""The app that `jobforge worker` runs in the benchmarks. It imports only what its jobs need."""

import os
import time
from pathlib import Path
from uuid import UUID

from start_times import record_start

from jobforge import Context, JobForge

TENANT = UUID(int=1)

WORK_S = float(os.environ.get("BENCH_WORK_S", "0"))  # CPU time that each job uses

jf = JobForge(tenant=TENANT)


@jf.job(isolation="inline")
async def noop(n: int) -> None:
    record_start(n)
    if WORK_S:
        _work()


@jf.job(isolation="inline")
async def wait_forever(n: int) -> None:
    """Run until the worker exits."""
    import asyncio  # noqa: PLC0415 - isolated jobs of this app do not need it

    record_start(n)
    await asyncio.Event().wait()


@jf.job(queue="isolated")
def isolated(n: int) -> None:  # noqa: ARG001 - the same payload as inline
    """Do nothing, in a separate process."""
    if WORK_S:
        _work()


@jf.job(queue="isolated")
def sleeper(ctx: Context, pid_file: str, *, ignores_cancel: bool) -> None:
    """Wait for a cancellation, and check for it every 5 ms unless `ignores_cancel` is set."""
    path = Path(pid_file)
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(60 if ignores_cancel else 0.005)
        ctx.check()


def _work() -> None:
    end = time.thread_time() + WORK_S
    while time.thread_time() < end:
        pass
