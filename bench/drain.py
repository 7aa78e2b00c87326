"""A drain: a backlog, workers that come up at the closed gate, and the time until all is done."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import start_times
from bench_servers import Connection, Stage, await_crowd, closed_gate, settle_down, waiting
from compared_side import Side, Workers, marks_file

_STEP = 1_000
_ISOLATED = {"BENCH_ISOLATED": "1"}


@dataclass(frozen=True, slots=True)
class Drained:
    """Jobs per second from the opening of the gate, and with the start of the workers."""

    rate: float
    wall: float
    cpu_s: float
    memory_mb: float


def drain_backlog(  # noqa: PLR0913 - one for each thing that can be asked for
    stage: Stage,
    side: Side,
    jobs: int,
    *,
    processes: int = 1,
    isolated: bool = False,
    more: Mapping[str, str] | None = None,
) -> tuple[float, float]:
    """In a fresh database: jobs per second, without and with the start of the workers.

    The workers have `more` variables.
    """
    drain = Drain(side, jobs, processes, is_isolated=isolated, more=more or {})
    with side.fresh(stage) as url:
        drained = drain.run(stage, url)
    return drained.rate, drained.wall


@dataclass(frozen=True, slots=True)
class _Start:
    opened: float
    up_s: float


@dataclass(frozen=True, slots=True)
class Drain:
    """Workers come up at the closed gate, it opens, and the jobs get done.

    `settle` is what happens between the load and the start. The jobs are enqueued by the side's
    own program, unless they are there already.
    """

    side: Side
    jobs: int
    processes: int = 1
    is_isolated: bool = False
    is_filled: bool = False
    settle: Callable[[Connection], None] = settle_down
    more: Mapping[str, str] = field(default_factory=dict)  # variables of the workers

    def run(self, stage: Stage, url: str) -> Drained:
        step = _STEP if self.side.is_durable and self.jobs >= 10 * _STEP else 1
        with marks_file(step) as (path, env):
            env.update(_ISOLATED if self.is_isolated else {})
            if not self.is_filled:
                self.side.ask("bulk", url, str(self.jobs), env=env)
            run = _Run(self, url, path, {**env, **self.more})
            start, end, cpu_s, memory_mb = (
                run.on_postgres() if self.side.is_durable else run.on_redis(stage)
            )
        seconds = end - start.opened
        return Drained(self.jobs / seconds, self.jobs / (seconds + start.up_s), cpu_s, memory_mb)


_Result = tuple[_Start, float, float, float]


@dataclass(frozen=True, slots=True)
class _Run:
    drain: Drain
    url: str
    marks: Path
    env: dict[str, str]

    def on_postgres(self) -> _Result:
        side = self.drain.side
        with psycopg.connect(self.url, autocommit=True) as conn:
            self.drain.settle(conn)
            with closed_gate(self.url, side.rival.table) as gate:
                spawned = time.time()
                with self._working() as workers:
                    up = await_crowd(lambda: waiting(conn), self.drain.processes, workers.check)
                    start, before = _Start(time.time(), up - spawned), workers.cpu_s()
                    gate.commit()
                    workers.until(lambda: self._is_near() and side.left(conn) == 0, share=0.01)
                    end = time.time()
                    return start, end, workers.cpu_s() - before, workers.memory_mb()

    def on_redis(self, stage: Stage) -> _Result:
        redis, rival = stage.redis, self.drain.side.rival
        redis.ask("rename", rival.key, "aside")
        count = redis.polling if rival.polls else redis.blocked
        spawned = time.time()
        with self._working() as workers:
            up = await_crowd(count, self.drain.processes, workers.check)
            start, before = _Start(time.time(), up - spawned), workers.cpu_s()
            redis.ask("rename", "aside", rival.key)
            workers.until(lambda: start_times.count(self.marks) >= self.drain.jobs, share=0.01)
            used = workers.cpu_s() - before
            return start, max(start_times.read(self.marks)), used, workers.memory_mb()

    def _working(self) -> AbstractContextManager[Workers]:
        drain = self.drain
        return drain.side.working(
            self.url, processes=drain.processes, isolated=drain.is_isolated, env=self.env
        )

    def _is_near(self) -> bool:
        """Whether the last jobs have started: asking the database sooner would slow it down."""
        if self.drain.side.is_ours and self.drain.is_isolated:
            return True  # those handlers have no way to leave marks
        return start_times.count(self.marks) * int(self.env[start_times.STEP]) >= self.drain.jobs
