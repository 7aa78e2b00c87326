"""Drain of a backlog: workers start at a locked table, and run until all jobs are finished."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import start_times
from bench_servers import (
    BenchServers,
    Connection,
    analyze_and_checkpoint,
    count_waiting,
    locked_table,
    wait_for_workers,
)
from compared_side import Side, Workers, start_times_file

_STEP = 1_000
_ISOLATED = {"BENCH_ISOLATED": "1"}


@dataclass(frozen=True, slots=True)
class DrainResult:
    """Jobs per second since the table was unlocked (`rate`) and since workers started (`wall`)."""

    rate: float
    wall: float
    cpu_s: float
    memory_mb: float


def drain_backlog(  # noqa: PLR0913 - one parameter for each property of a drain
    servers: BenchServers,
    side: Side,
    jobs: int,
    *,
    processes: int = 1,
    isolated: bool = False,
    extra_env: Mapping[str, str] | None = None,
) -> tuple[float, float]:
    """Drain a backlog in a fresh database; return jobs per second without and with the start.

    The workers get the environment variables of `extra_env` in addition.
    """
    drain = Drain(side, jobs, processes, is_isolated=isolated, extra_env=extra_env or {})
    with side.fresh_store(servers) as url:
        drained = drain.run(servers, url)
    return drained.rate, drained.wall


@dataclass(frozen=True, slots=True)
class _Start:
    opened: float
    up_s: float


@dataclass(frozen=True, slots=True)
class Drain:
    """Starts workers while the table of jobs is locked, unlocks it, and waits until jobs are done.

    `before_start` is called between the enqueuing and the start of the workers. The side's program
    enqueues the jobs, unless `is_filled` says that the database already has them.
    """

    side: Side
    jobs: int
    processes: int = 1
    is_isolated: bool = False
    is_filled: bool = False
    before_start: Callable[[Connection], None] = analyze_and_checkpoint
    extra_env: Mapping[str, str] = field(default_factory=dict)  # environment of the workers

    def run(self, servers: BenchServers, url: str) -> DrainResult:
        step = _STEP if self.side.is_durable and self.jobs >= 10 * _STEP else 1
        with start_times_file(step) as (path, env):
            env.update(_ISOLATED if self.is_isolated else {})
            if not self.is_filled:
                self.side.run_program("bulk", url, str(self.jobs), env=env)
            run = _Run(self, url, path, {**env, **self.extra_env})
            start, end, cpu_s, memory_mb = (
                run.on_postgres() if self.side.is_durable else run.on_redis(servers)
            )
        seconds = end - start.opened
        return DrainResult(
            self.jobs / seconds, self.jobs / (seconds + start.up_s), cpu_s, memory_mb
        )


_Result = tuple[_Start, float, float, float]


@dataclass(frozen=True, slots=True)
class _Run:
    drain: Drain
    url: str
    start_times: Path
    env: dict[str, str]

    def on_postgres(self) -> _Result:
        side = self.drain.side
        with psycopg.connect(self.url, autocommit=True) as conn:
            self.drain.before_start(conn)
            with locked_table(self.url, side.rival.table) as lock:
                spawned = time.time()
                with self._working() as workers:
                    up = wait_for_workers(
                        lambda: count_waiting(conn), self.drain.processes, workers.check
                    )
                    start, before = _Start(time.time(), up - spawned), workers.cpu_s()
                    lock.commit()
                    workers.wait_until(
                        lambda: self._have_all_started() and side.count_unfinished(conn) == 0,
                        share=0.01,
                    )
                    end = time.time()
                    return start, end, workers.cpu_s() - before, workers.memory_mb()

    def on_redis(self, servers: BenchServers) -> _Result:
        redis, rival = servers.redis, self.drain.side.rival
        redis.run_command("rename", rival.redis_key, "aside")
        count = redis.count_polling if rival.polls else redis.count_blocked
        spawned = time.time()
        with self._working() as workers:
            up = wait_for_workers(count, self.drain.processes, workers.check)
            start, before = _Start(time.time(), up - spawned), workers.cpu_s()
            redis.run_command("rename", "aside", rival.redis_key)
            workers.wait_until(
                lambda: start_times.count(self.start_times) >= self.drain.jobs, share=0.01
            )
            used = workers.cpu_s() - before
            return start, max(start_times.read(self.start_times)), used, workers.memory_mb()

    def _working(self) -> AbstractContextManager[Workers]:
        drain = self.drain
        return drain.side.run_workers(
            self.url, processes=drain.processes, isolated=drain.is_isolated, env=self.env
        )

    def _have_all_started(self) -> bool:
        """Return whether the last jobs have started; earlier queries would slow the drain."""
        if self.drain.side.is_jobforge and self.drain.is_isolated:
            return True  # handlers in separate processes do not record their start
        return (
            start_times.count(self.start_times) * int(self.env[start_times.STEP]) >= self.drain.jobs
        )
