"""A drain: a backlog, workers that come up at the closed gate, and the time until all is done."""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import marks
import psycopg
from side import Side, Workers, marks_file
from stage import Stage, await_crowd, closed_gate, settle_down, waiting

_STEP = 1_000
_ISOLATED = {"JOBFORGE_BENCH_ISOLATED": "1"}


def drain_backlog(  # noqa: PLR0913 - one for each thing that can be asked for
    stage: Stage,
    side: Side,
    jobs: int,
    *,
    processes: int = 1,
    isolated: bool = False,
    more: Mapping[str, str] | None = None,
) -> tuple[float, float]:
    """Jobs per second from the opening of the gate, and with the start of the workers.

    The workers have `more` variables.
    """
    step = _STEP if side.is_durable and jobs >= 10 * _STEP else 1
    with side.fresh(stage) as url, marks_file(step) as (path, env):
        env.update(_ISOLATED if isolated else {})
        side.ask("bulk", url, str(jobs), env=env)
        env.update(more or {})
        run = _Run(side, url, path, env, jobs, processes, isolated=isolated)
        start, end = run.on_postgres() if side.is_durable else run.on_redis(stage)
    return jobs / (end - start.opened), jobs / (end - start.opened + start.up_s)


@dataclass(frozen=True, slots=True)
class _Start:
    opened: float
    up_s: float


@dataclass(frozen=True, slots=True)
class _Run:
    """One drain: workers come up at the closed gate, it opens, and the jobs get done."""

    side: Side
    url: str
    marks: Path
    env: dict[str, str]
    jobs: int
    processes: int
    isolated: bool

    def on_postgres(self) -> tuple[_Start, float]:
        with psycopg.connect(self.url, autocommit=True) as conn:
            settle_down(conn)
            with closed_gate(self.url, self.side.rival.table) as gate:
                spawned = time.time()
                with self._working() as workers:
                    up = await_crowd(lambda: waiting(conn), self.processes, workers.check)
                    start = _Start(time.time(), up - spawned)
                    gate.commit()
                    workers.until(lambda: self._is_near() and self.side.left(conn) == 0, share=0.01)
                    return start, time.time()

    def on_redis(self, stage: Stage) -> tuple[_Start, float]:
        redis, key = stage.redis, self.side.rival.key
        redis.ask("rename", key, "aside")
        spawned = time.time()
        with self._working() as workers:
            up = await_crowd(redis.blocked, self.processes, workers.check)
            start = _Start(time.time(), up - spawned)
            redis.ask("rename", "aside", key)
            workers.until(lambda: marks.count(self.marks) >= self.jobs, share=0.01)
            return start, max(marks.read(self.marks))

    def _working(self) -> AbstractContextManager[Workers]:
        return self.side.working(
            self.url, processes=self.processes, isolated=self.isolated, env=self.env
        )

    def _is_near(self) -> bool:
        """Whether the end may be near: asking the database sooner would slow it down."""
        if self.side.is_ours and self.isolated:
            return True  # those handlers have no way to leave marks
        step = int(self.env[marks.STEP])
        return (marks.count(self.marks) - self.processes) * step >= self.jobs * 0.8
