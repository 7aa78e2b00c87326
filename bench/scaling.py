"""How the rate changes as things grow: backlog, history, tenants, dead rows, connections."""

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
from bench_servers import Connection, Stage, await_crowd, closed_gate, settle_down, waiting
from compared_side import Side, marks_file
from drain import Drain
from measurements import Measured, at
from run_sizes import Size

BACKLOG = "first jobs of a backlog/s"
HISTORY = "beside finished jobs/s"
TENANTS = "jobs of so many tenants/s"
HELD = "while a snapshot is held/s"
CONNECTIONS = "so many connections/s"

_STEPS = 10  # marks while the first jobs of a backlog are worked off
_BATCH = 50  # of a connection that has many beside it


def backlog(stage: Stage, side: Side, size: Size) -> Measured:
    """Right after the load, as a burst comes: nobody has analyzed the table."""
    return {
        at(BACKLOG, jobs): [_first_of(stage, side, jobs, side.jobs("drain", size.first))]
        for jobs in size.backlogs
        if jobs <= side.rival.largest
    }


def _first_of(stage: Stage, side: Side, jobs: int, first: int) -> float:
    step = max(1, first // _STEPS)
    with side.fresh(stage) as url, marks_file(step) as (path, env):
        side.ask("bulk", url, str(jobs))
        with (
            psycopg.connect(url, autocommit=True) as conn,
            closed_gate(url, side.rival.table) as gate,
            side.working(url, env=env) as workers,
        ):
            stage.admin.execute("checkpoint")
            await_crowd(lambda: waiting(conn), 1, workers.check)
            opened = time.time()
            gate.commit()
            workers.until(lambda: start_times.count(path) > _STEPS)
        return step * _STEPS / (start_times.read(path)[_STEPS] - opened)


def history(stage: Stage, side: Side, size: Size) -> Measured:
    """Databases that stay for all rounds; a drain more or less does not change them."""
    measured = {}
    for finished in (count for count in size.histories if count <= side.rival.largest):
        name = f"history_{side.name}_{finished}"
        url = stage.kept_database(name, side.template, partial(_finish, side, finished))
        drain = Drain(side, side.jobs("drain", size.drain), settle=_checkpoint)
        measured[at(HISTORY, finished)] = [drain.run(stage, url).rate]
    return measured


def _finish(side: Side, jobs: int, conn: Connection) -> None:
    if side.is_ours:
        sql_bench.add_history(conn, jobs)
    else:
        conn.execute(side.rival.finished.encode(), [jobs])


def _checkpoint(conn: Connection) -> None:
    """All but the new jobs was analyzed when it was made."""
    conn.execute("checkpoint")


def tenants(stage: Stage, side: Side, size: Size) -> Measured:
    measured = {}
    for count in size.tenants:
        with side.fresh(stage) as url:
            with psycopg.connect(url, autocommit=True) as conn:
                sql_bench.fill(conn, size.of_tenants, count)
            drained = Drain(side, size.of_tenants, is_filled=True).run(stage, url)
            measured[at(TENANTS, count)] = [drained.rate]
    return measured


def held_snapshot(stage: Stage, side: Side, size: Size) -> Measured:
    """One drain after the other in one database, where nothing can be cleaned up meanwhile."""
    jobs = side.jobs("drain", size.drain)
    with side.fresh(stage) as url, _snapshot(url, side.rival.table):
        return {
            at(HELD, number * jobs): [Drain(side, jobs).run(stage, url).rate]
            for number in range(1, size.held + 1)
        }


@contextmanager
def _snapshot(url: str, table: str) -> Iterator[None]:
    with psycopg.connect(url) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute(f"select count(*) from {table}".encode())
        yield


def connections(stage: Stage, side: Side, size: Size) -> Measured:
    """Claims and completions by SQL, 50 jobs at a time, from so many connections at once."""
    return {
        at(CONNECTIONS, count): [_rate_of(stage, side, size.drain, count)]
        for count in size.connections
    }


def _rate_of(stage: Stage, side: Side, jobs: int, count: int) -> float:
    work: Callable[[Connection, int], int] = _ours if side.is_ours else _floor
    with side.fresh(stage) as url, ExitStack() as stack:
        with psycopg.connect(url, autocommit=True) as conn:
            sql_bench.fill(conn, jobs + count * _BATCH, table=side.rival.table)
            settle_down(conn)
        opened: list[psycopg.Connection[Any]] = [
            stack.enter_context(sql_bench.connect(url)) for _ in range(count)
        ]
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda conn: work(conn, _BATCH), opened))  # plans are made
            start = time.perf_counter()
            done = sum(pool.map(lambda conn: work(conn, jobs // count), opened))
            return done / (time.perf_counter() - start)


def _ours(conn: Connection, jobs: int) -> int:
    return sql_bench.drain(conn, uuid4(), jobs, batch=_BATCH)


def _floor(conn: Connection, jobs: int) -> int:
    return floor_sql.drain(conn, uuid4(), jobs, _BATCH)
