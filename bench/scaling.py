"""Rates as backlog, history, tenants, dead rows or connections grow."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import floor_sql
import psycopg
import sql_bench
import start_times
from bench_servers import (
    BenchServers,
    Connection,
    analyze_and_checkpoint,
    count_waiting,
    locked_table,
    wait_for_workers,
)
from compared_side import Side, start_times_file
from drain import Drain
from measurements import Measurements, name_point
from run_sizes import Size

BACKLOG = "first jobs of a backlog/s"
HISTORY = "beside finished jobs/s"
TENANTS = "jobs of many tenants/s"
HELD_SNAPSHOT = "while a snapshot is held/s"
CONNECTIONS = "many connections/s"

_STEPS = 10  # start times recorded while the first jobs of a backlog run
_BATCH = 50  # jobs per claim where many connections claim concurrently


def backlog(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Measure right after the bulk load, as after a burst: the table has no fresh statistics."""
    return {
        name_point(BACKLOG, jobs): [
            _drain_first(servers, side, jobs, side.scale_jobs("drain", size.first))
        ]
        for jobs in size.backlogs
        if jobs <= side.rival.largest_backlog
    }


def _drain_first(servers: BenchServers, side: Side, jobs: int, first: int) -> float:
    step = max(1, first // _STEPS)
    with side.fresh_store(servers) as url, start_times_file(step) as (path, env):
        side.run_program("bulk", url, str(jobs))
        with (
            psycopg.connect(url, autocommit=True) as conn,
            locked_table(url, side.rival.table) as lock,
            side.run_workers(url, env=env) as workers,
        ):
            servers.admin.execute("checkpoint")
            wait_for_workers(lambda: count_waiting(conn), 1, workers.check)
            opened = time.time()
            lock.commit()
            workers.wait_until(lambda: start_times.count(path) > _STEPS)
        return step * _STEPS / (start_times.read(path)[_STEPS] - opened)


def history(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Measure in databases that all rounds share; one more drain hardly changes them."""
    measured = {}
    for finished in (count for count in size.histories if count <= side.rival.largest_backlog):
        name = f"history_{side.name}_{finished}"
        url = servers.reusable_database(name, side.template, partial(_add_history, side, finished))
        drain = Drain(side, side.scale_jobs("drain", size.drain), before_start=_checkpoint)
        measured[name_point(HISTORY, finished)] = [drain.run(servers, url).rate]
    return measured


def _add_history(side: Side, jobs: int, conn: Connection) -> None:
    if side.is_jobforge:
        sql_bench.add_history(conn, jobs)
    else:
        conn.execute(side.rival.add_history_query.encode(), [jobs])


def _checkpoint(conn: Connection) -> None:
    """Run a checkpoint only: everything but the new jobs was analyzed when it was created."""
    conn.execute("checkpoint")


def tenants(servers: BenchServers, side: Side, size: Size) -> Measurements:
    measured = {}
    for count in size.tenants:
        with side.fresh_store(servers) as url:
            with psycopg.connect(url, autocommit=True) as conn:
                sql_bench.add_backlog(conn, size.of_tenants, count)
            drained = Drain(side, size.of_tenants, is_filled=True).run(servers, url)
            measured[name_point(TENANTS, count)] = [drained.rate]
    return measured


def held_snapshot(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Run drains one after the other in a database where a snapshot prevents any cleanup."""
    jobs = side.scale_jobs("drain", size.drain)
    with side.fresh_store(servers) as url, _snapshot(url, side.rival.table):
        return {
            name_point(HELD_SNAPSHOT, number * jobs): [Drain(side, jobs).run(servers, url).rate]
            for number in range(1, size.held + 1)
        }


@contextmanager
def _snapshot(url: str, table: str) -> Iterator[None]:
    with psycopg.connect(url) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute(f"select count(*) from {table}".encode())
        yield


def connections(servers: BenchServers, side: Side, size: Size) -> Measurements:
    """Measure claims and completions by SQL, 50 jobs at a time, on concurrent connections."""
    return {
        name_point(CONNECTIONS, count): [_rate_of(servers, side, size.drain, count)]
        for count in size.connections
    }


def _rate_of(servers: BenchServers, side: Side, jobs: int, count: int) -> float:
    work: Callable[[Connection, int], int] = _drain_jobforge if side.is_jobforge else _drain_floor
    with side.fresh_store(servers) as url, ExitStack() as stack:
        with psycopg.connect(url, autocommit=True) as conn:
            sql_bench.add_backlog(conn, jobs + count * _BATCH, table=side.rival.table)
            analyze_and_checkpoint(conn)
        opened: list[psycopg.Connection[Any]] = [
            stack.enter_context(sql_bench.connect(url)) for _ in range(count)
        ]
        with ThreadPoolExecutor(count) as pool:
            # The first batch makes each connection plan its statements.
            list(pool.map(lambda conn: work(conn, _BATCH), opened))
            start = time.perf_counter()
            done = sum(pool.map(lambda conn: work(conn, jobs // count), opened))
            return done / (time.perf_counter() - start)


def _drain_jobforge(conn: Connection, jobs: int) -> int:
    return sql_bench.drain(conn, uuid4(), jobs, batch=_BATCH)


def _drain_floor(conn: Connection, jobs: int) -> int:
    return floor_sql.drain(conn, uuid4(), jobs, _BATCH)
