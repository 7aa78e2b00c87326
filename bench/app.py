"""The app that `jobforge worker` runs in the bench: it imports only what its jobs need."""

import os
import time
from pathlib import Path
from uuid import UUID

from start_times import record_start

from jobforge import Context, JobForge

TENANT = UUID(int=1)

jf = JobForge(tenant=TENANT)


@jf.job(isolation="inline")
async def noop(n: int) -> None:
    record_start(n)


@jf.job(isolation="inline")
async def held(n: int) -> None:
    """Runs until its worker ends."""
    import asyncio  # noqa: PLC0415 - a job in a process of its own does without

    record_start(n)
    await asyncio.Event().wait()


@jf.job(queue="isolated")
def isolated(n: int) -> None:
    """A no-op in a process of its own."""


@jf.job(queue="isolated")
def sleeper(ctx: Context, pid_file: str, *, is_deaf: bool) -> None:
    """Waits to be canceled; a deaf one does not look whether it is."""
    path = Path(pid_file)
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(60 if is_deaf else 0.005)
        ctx.check()
