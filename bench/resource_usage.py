"""What a job costs: WAL, row writes, processor time, memory. And what an idle worker asks for."""

import time

import process_usage
import psycopg
import start_times
from bench_servers import Connection, Stage, gather_statistics
from compared_side import Side, marks_file
from drain import Drain
from measurements import Measured
from run_sizes import Size

WAL_ENQUEUE, WAL_RUN = "WAL bytes a job, enqueue", "WAL bytes a job, run"
INSERTED, UPDATED, DELETED = "rows inserted a job", "rows updated a job", "rows deleted a job"
SERVER_CPU, WORKER_CPU = "server CPU µs a job", "worker CPU µs a job"
WORKER_MB = "worker MB"
IDLE = "idle queries/s"
MEMORY_EARLY, MEMORY_END = "MB at 10 %", "MB at the end"

_WRITTEN = """
select coalesce(sum(n_tup_ins), 0), coalesce(sum(n_tup_upd), 0), coalesce(sum(n_tup_del), 0)
  from pg_stat_user_tables
"""
_LONGEST_S = 5


def cost(stage: Stage, side: Side, size: Size) -> Measured:
    """Of a drain. No checkpoint comes between, for whose sake whole pages go to the WAL."""
    jobs = side.jobs("drain", size.drain)
    with side.fresh(stage) as url, stage.without_autovacuum():
        start = stage.wal_bytes()
        side.ask("bulk", url, str(jobs))
        with psycopg.connect(url, autocommit=True) as conn:
            gather_statistics(conn)
            filled, written = stage.wal_bytes(), _written(conn)
            computed = stage.server_cpu_s()
            drained = Drain(side, jobs, is_filled=True, settle=_leave).run(stage, url)
            server_s, wal = stage.server_cpu_s() - computed, stage.wal_bytes() - filled
            rows = [after - before for after, before in zip(_written(conn), written, strict=True)]
    measured = {
        WAL_ENQUEUE: (filled - start) / jobs,
        WAL_RUN: wal / jobs,
        SERVER_CPU: server_s / jobs * 1e6,
        WORKER_CPU: drained.cpu_s / jobs * 1e6,
        WORKER_MB: drained.memory_mb,
        **dict(zip((INSERTED, UPDATED, DELETED), (row / jobs for row in rows), strict=True)),
    }
    return {name: [value] for name, value in measured.items()}


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
        side.ask("bulk", url, str(size.memory))
        with (
            psycopg.connect(url, autocommit=True) as conn,
            side.working(url, env=env) as workers,
        ):
            workers.until(lambda: start_times.count(path) > 2)  # the third is at a tenth
            early = process_usage.resident_mb(workers.pid)
            workers.until(lambda: start_times.count(path) == 20 and side.left(conn) == 0)
            return {MEMORY_EARLY: [early], MEMORY_END: [process_usage.resident_mb(workers.pid)]}


def _leave(_: Connection) -> None:
    """Everything as it is."""


def _written(conn: Connection) -> tuple[int, ...]:
    """Rows inserted, updated and deleted, once all backends have told."""
    deadline = time.monotonic() + _LONGEST_S
    last, since = None, 0.0
    while time.monotonic() < deadline:
        now = tuple(int(each) for each in conn.execute(_WRITTEN).fetchone() or ())
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > 1.2:  # a backend that is idle tells after a second
            break
        time.sleep(0.1)
    return last or ()
