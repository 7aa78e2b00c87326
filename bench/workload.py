"""What is measured of one side: drain, bulk and single enqueue, pick-up, isolated jobs.

And of ours alone: how soon a canceled process is gone, what an idle worker asks for, and whether
memory grows. Each returns its figures by name, as lists: rounds add up.
"""

import json
import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

import marks
import psycopg
from drain import drain_backlog
from side import Side, marks_file
from stage import Connection, Stage, Stuck

Measured = dict[str, list[float]]

DRAIN, DRAIN_WALL = "drain/s", "with start/s"
DRAIN_2, DRAIN_2_WALL = "2 processes/s", "2, with start/s"
BULK = "bulk enqueue/s"
SINGLE, COMMITS = "single enqueue/s", "commits/s"
P50, P99 = "pick-up p50 ms", "pick-up p99 ms"
ISOLATED, ISOLATED_2 = "isolated/s", "isolated, 2 workers/s"
CANCEL, CANCEL_DEAF = "cancel ms", "cancel of a deaf job ms"
IDLE = "idle queries/s"
MEMORY_EARLY, MEMORY_END = "MB at 10 %", "MB at the end"

_TENANT = UUID(int=1)
_ENQUEUE = "select job_id from jobforge.enqueue_jobs(%s::jsonb, %s)"
_CANCEL = "select jobforge.cancel_job(%s, p_tenant_id => %s)"


@dataclass(frozen=True, slots=True)
class Size:
    """The counts of a run."""

    rounds: int
    drain: int
    bulk: int
    single: int
    latency: int
    isolated: int
    cancels: int
    idle_s: float
    memory: int


FULL = Size(
    rounds=3,
    drain=20_000,
    bulk=20_000,
    single=2_000,
    latency=70,
    isolated=2_000,
    cancels=15,
    idle_s=15,
    memory=200_000,
)
QUICK = Size(
    rounds=1,
    drain=200,
    bulk=200,
    single=100,
    latency=10,
    isolated=40,
    cancels=2,
    idle_s=2,
    memory=2_000,
)


def drain(stage: Stage, side: Side, size: Size) -> Measured:
    rate, wall = drain_backlog(stage, side, side.jobs("drain", size.drain))
    return {DRAIN: [rate], DRAIN_WALL: [wall]}


def drain_by_two(stage: Stage, side: Side, size: Size) -> Measured:
    rate, wall = drain_backlog(stage, side, side.jobs("drain", size.drain), processes=2)
    return {DRAIN_2: [rate], DRAIN_2_WALL: [wall]}


def bulk(stage: Stage, side: Side, size: Size) -> Measured:
    jobs = side.jobs("bulk", size.bulk)
    with side.fresh(stage) as url:
        _checkpoint(stage)
        answer = side.ask("bulk", url, str(jobs))
    return {BULK: [jobs / answer["seconds"]]}


def single(stage: Stage, side: Side, size: Size) -> Measured:
    with side.fresh(stage) as url:
        _checkpoint(stage)
        answer = side.ask("single", url, str(size.single))
    measured = {SINGLE: [size.single / answer["seconds"]]}
    if answer["bare_seconds"]:
        measured[COMMITS] = [size.single / answer["bare_seconds"]]
    return measured


def latency(stage: Stage, side: Side, size: Size) -> Measured:
    with (
        side.fresh(stage) as url,
        marks_file() as (_, env),
        side.working(url, env=env),
    ):
        answer = side.ask("latency", url, str(size.latency), env=env)
    sample = [seconds * 1000 for seconds in answer["latencies"]]
    return {P50: sample, P99: sample}


def isolated(stage: Stage, side: Side, size: Size) -> Measured:
    """Ours and rq's have a process for each job; celery's two processes are used again."""
    jobs = side.jobs("isolated", size.isolated)
    measured = {ISOLATED: [drain_backlog(stage, side, jobs, isolated=True)[0]]}
    if side.name == "rq":  # one worker of ours uses all cores, one of rq's runs a job at a time
        measured[ISOLATED_2] = [drain_backlog(stage, side, jobs, isolated=True, processes=2)[0]]
    return measured


def cancel(stage: Stage, side: Side, size: Size) -> Measured:
    """From the call to cancel until the process of the running job is gone.

    One job looks whether it was canceled. The other does not: it is asked, and told a second later.
    """
    measured: Measured = {CANCEL: [], CANCEL_DEAF: []}
    with (
        side.fresh(stage) as url,
        psycopg.connect(url, autocommit=True) as conn,
        side.working(url, isolated=True, env={}) as workers,
    ):
        for number in range(size.cancels):
            for name in measured:
                pid_file = stage.folder / f"{name} {number}"
                job_id = _enqueue_sleeper(conn, pid_file, is_deaf=name == CANCEL_DEAF)
                workers.until(pid_file.exists)
                process = Path("/proc") / pid_file.read_text()
                start = time.perf_counter()
                conn.execute(_CANCEL, [job_id, _TENANT])
                workers.until(partial(_is_gone, process))
                measured[name].append((time.perf_counter() - start) * 1000)
    return measured


def idle(stage: Stage, side: Side, size: Size) -> Measured:
    with stage.without_autovacuum(), side.fresh(stage) as url:
        with psycopg.connect(url, autocommit=True) as conn:
            name = conn.info.dbname
        with side.working(url, env={}) as workers:
            started = stage.transactions(name)
            workers.until(lambda: stage.transactions(name) > started)
            time.sleep(min(15, size.idle_s))  # it settles down, and its start is counted
            busy = stage.transactions_per_s(name, size.idle_s)
            workers.check()
    return {IDLE: [busy]}


def memory(stage: Stage, side: Side, size: Size) -> Measured:
    """Resident memory of a worker after a tenth of the jobs and after all."""
    step = size.memory // 20
    with side.fresh(stage) as url, marks_file(step) as (path, env):
        for _ in range(10):
            side.ask("bulk", url, str(size.memory // 10))
        with (
            psycopg.connect(url, autocommit=True) as conn,
            side.working(url, env=env) as workers,
        ):
            workers.until(lambda: marks.count(path) > 2)  # the third is at a tenth
            early = _resident_mb(workers.pid)
            workers.until(lambda: marks.count(path) == 20 and side.left(conn) == 0)
            return {MEMORY_EARLY: [early], MEMORY_END: [_resident_mb(workers.pid)]}


def _checkpoint(stage: Stage) -> None:
    stage.admin.execute("checkpoint")


def _enqueue_sleeper(conn: Connection, pid_file: Path, *, is_deaf: bool) -> UUID:
    payload = {"pid_file": str(pid_file), "is_deaf": is_deaf}
    job = {"definition": "sleeper", "payload": payload}
    row = conn.execute(_ENQUEUE, [json.dumps([job]), _TENANT]).fetchone()
    if row is None:
        raise Stuck("a job was not enqueued")
    return UUID(str(row[0]))


def _is_gone(process: Path) -> bool:
    return not process.exists()


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
