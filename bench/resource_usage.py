"""Cost of a job (WAL, row writes, CPU time, memory), and queries of an idle worker."""

import time

import process_usage
import psycopg
import start_times
from bench_servers import BenchServers, Connection, gather_statistics
from compared_side import Side, start_times_file
from drain import Drain
from measurements import Measurements
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


def cost(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Measure a drain. No checkpoint runs in between, because full-page writes would follow it."""
    jobs = side.scale_jobs("drain", size.drain)
    with side.fresh_store(servers) as url, servers.without_autovacuum():
        start = servers.wal_bytes()
        side.run_program("bulk", url, str(jobs))
        with psycopg.connect(url, autocommit=True) as conn:
            gather_statistics(conn)
            wal_filled, rows_before = servers.wal_bytes(), _count_writes(conn)
            cpu_before = servers.server_cpu_s()
            drained = Drain(side, jobs, is_filled=True, before_start=_do_nothing).run(servers, url)
            server_s, wal = servers.server_cpu_s() - cpu_before, servers.wal_bytes() - wal_filled
            rows = [
                after - before
                for after, before in zip(_count_writes(conn), rows_before, strict=True)
            ]
    measured = {
        WAL_ENQUEUE: (wal_filled - start) / jobs,
        WAL_RUN: wal / jobs,
        SERVER_CPU: server_s / jobs * 1e6,
        WORKER_CPU: drained.cpu_s / jobs * 1e6,
        WORKER_MB: drained.memory_mb,
        **dict(zip((INSERTED, UPDATED, DELETED), (row / jobs for row in rows), strict=True)),
    }
    return {name: [value] for name, value in measured.items()}


def idle(servers: BenchServers, side: Side, size: Size) -> Measurements:
    with servers.without_autovacuum(), side.fresh_store(servers) as url:
        with psycopg.connect(url, autocommit=True) as conn:
            name = conn.info.dbname
        with side.run_workers(url, env={}) as workers:
            started = servers.transactions(name)
            workers.wait_until(lambda: servers.transactions(name) > started)
            time.sleep(min(15, size.idle_s))  # until the statistics include the worker's start
            busy = servers.transactions_per_s(name, size.idle_s)
            workers.check()
    return {IDLE: [busy]}


def memory(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Measure the resident memory of a worker after a tenth of the jobs and after all."""
    step = size.memory // 20
    with side.fresh_store(servers) as url, start_times_file(step) as (path, env):
        side.run_program("bulk", url, str(size.memory))
        with (
            psycopg.connect(url, autocommit=True) as conn,
            side.run_workers(url, env=env) as workers,
        ):
            workers.wait_until(
                lambda: start_times.count(path) > 2
            )  # a tenth of the jobs has started
            early = process_usage.resident_mb(workers.pid)
            workers.wait_until(
                lambda: start_times.count(path) == 20 and side.count_unfinished(conn) == 0
            )
            return {MEMORY_EARLY: [early], MEMORY_END: [process_usage.resident_mb(workers.pid)]}


def _do_nothing(_: Connection) -> None:
    """Leave the database unchanged before the start of the workers."""


def _count_writes(conn: Connection) -> tuple[int, ...]:
    """Return the rows inserted, updated and deleted, after all backends have reported them."""
    deadline = time.monotonic() + _LONGEST_S
    last, since = None, 0.0
    while time.monotonic() < deadline:
        now = tuple(int(each) for each in conn.execute(_WRITTEN).fetchone() or ())
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > 1.2:  # an idle backend reports after a second
            break
        time.sleep(0.1)
    return last or ()
