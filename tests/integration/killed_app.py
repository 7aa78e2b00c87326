"""The app of tests that kill processes at the worst moment.

Each handler exists twice: isolated, where it kills its own process, and inline, where it kills the
worker.
"""

import os
import signal
from pathlib import Path
from typing import Literal, NoReturn

import psycopg

from jobforge import Context, JobForge, Retry

jf = JobForge()

Moment = Literal["before commit", "after commit"]

_SOON = Retry(max_attempts=3, base=0.01)
_NEVER = Retry(max_attempts=1)


def transfer(ctx: Context, url: str, moment: Moment) -> None:
    """Store the effect and complete the job in one transaction; the first attempt is killed."""
    with psycopg.connect(url) as conn:
        conn.execute("insert into effects values (%s, %s)", [ctx.fence, ctx.attempt])
        ctx.complete_in(conn, {"attempt": ctx.attempt})
        if ctx.attempt > 1:
            return
        if moment == "after commit":
            _commit_without_reply(conn, url, ctx.fence)
        _kill_itself()


def _commit_without_reply(
    conn: "psycopg.Connection[tuple[object, ...]]", url: str, fence: str
) -> None:
    """Commit, as another connection can see, without reading the reply."""
    conn.pgconn.send_query(b"commit")
    conn.pgconn.flush()
    with psycopg.connect(url, autocommit=True) as other:
        while not other.execute("select from effects where fence = %s", [fence]).rowcount:
            pass


def _kill_itself() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still here")


@jf.job(retry=_SOON)
def transfer_apart(ctx: Context, url: str, moment: Moment) -> None:
    transfer(ctx, url, moment)


@jf.job(retry=_SOON, isolation="inline")
async def transfer_inline(ctx: Context, url: str, moment: Moment) -> None:
    transfer(ctx, url, moment)


@jf.job(retry=_NEVER)
def die_apart() -> None:
    _kill_itself()


@jf.job(retry=_NEVER, isolation="inline")
async def die_inline() -> None:
    _kill_itself()


@jf.job(retry=Retry(max_attempts=10, base=0.01))
def walk_apart(ctx: Context, path: str, deaths: list[int]) -> int:
    """Run three steps with an effect each. The nth attempt is killed at the nth of these points:
    odd points are before the steps and after the last one, even points are within a step, after its
    effect.
    """
    for number in range(3):
        _kill_at(ctx, deaths, 2 * number + 1)
        dies = _next_point(ctx, deaths) == 2 * number + 2
        ctx.step(f"step {number}", _have_effect, path, number, dies=dies)
    _kill_at(ctx, deaths, 7)
    return ctx.attempt


@jf.job(retry=Retry(max_attempts=10, base=0.01), isolation="inline")
async def walk_inline(ctx: Context, path: str, deaths: list[int]) -> int:
    for number in range(3):
        _kill_at(ctx, deaths, 2 * number + 1)
        dies = _next_point(ctx, deaths) == 2 * number + 2
        await ctx.astep(f"step {number}", _have_effect, path, number, dies=dies)
    _kill_at(ctx, deaths, 7)
    return ctx.attempt


def _next_point(ctx: Context, deaths: list[int]) -> int:
    return deaths[ctx.attempt - 1] if ctx.attempt <= len(deaths) else 0


def _kill_at(ctx: Context, deaths: list[int], point: int) -> None:
    if _next_point(ctx, deaths) == point:
        _kill_itself()


def _have_effect(path: str, number: int, *, dies: bool) -> None:
    with Path(path).open("a", encoding="ascii") as file:
        file.write(f"{number}\n")
    if dies:
        _kill_itself()


@jf.job
def nothing() -> None: ...


@die_apart.on_fail
@die_inline.on_fail
async def mourn(ctx: Context, error: dict[str, str]) -> None:
    await ctx.emit("mourned", error["type"])


@die_apart.on_end
@die_inline.on_end
def bury(ctx: Context, state: str) -> None:
    ctx.emit("buried", state)
