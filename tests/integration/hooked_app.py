"""An app with middleware and lifecycle hooks, for isolated jobs."""

import asyncio
import logging
import os
from contextvars import ContextVar

from jobforge import CallNext, Cancel, Context, JobForge

jf = JobForge()

WRAPPED: ContextVar[str] = ContextVar("WRAPPED", default="not wrapped")

zygote: list[int] = []
process: list[int] = []


@jf.on_zygote_start
def load() -> None:
    zygote.append(os.getpid())


@jf.on_process_start
def prepare() -> None:
    process.append(os.getpid())
    if "FAIL" in os.environ.get("LET_THROUGH", ""):
        raise OSError("no connection")


@jf.on_process_stop
def break_down() -> None:
    raise OSError("cannot disconnect")


@jf.middleware(handlers="sync")
def wrap(ctx: Context, call_next: CallNext) -> object:
    WRAPPED.set(f"wrapped {ctx.definition}")
    return _translate(call_next)


@jf.middleware(handlers="async")
async def wrap_async(ctx: Context, call_next: CallNext) -> object:
    WRAPPED.set(f"wrapped {ctx.definition}")
    try:
        return await call_next()
    except LookupError:
        raise Cancel("not found") from None


def _translate(call_next: CallNext) -> object:
    try:
        return call_next()
    except LookupError:
        raise Cancel("not found") from None


@jf.job
def look() -> dict[str, object]:
    logging.getLogger().info("running")
    return {
        "wrapped": WRAPPED.get(),
        "zygote": zygote,
        "process": process,
        "pid": os.getpid(),
        "parent": os.getppid(),
    }


@jf.job
async def look_async() -> str:
    await asyncio.sleep(0)
    return WRAPPED.get()


@jf.job
def miss() -> None:
    raise KeyError("Ada")


@jf.job
async def miss_async() -> None:
    raise KeyError("Ada")
