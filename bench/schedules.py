"""Measure the scheduler, with many due schedules and when idle: `make bench-schedules`.

The benchmark starts `jobforge scheduler` processes on one durable Postgres. All schedules are due
in the same minute: the database's clock stops before that minute, and is then moved into it. The
payloads have template tags, and are checked against the definition's parameters. `--quick` runs
everything with tiny counts, to check that the benchmark works.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from bench_servers import (
    QUICK_SETTINGS,
    SETTINGS,
    BenchError,
    BenchServers,
    Connection,
    analyze_and_checkpoint,
)
from psycopg.types.json import Jsonb
from sql import Figure, format_figure

from jobforge.db.migrate import migrate

_LONGEST_S = 120
_PAUSE_S = 0.01
_SCHEMA = {
    "type": "object",
    "properties": {"at": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["at"],
}
_STOP_CLOCK = """
create table public.clock as select timestamptz '2026-06-01 08:59:30Z' as at;
grant select on public.clock to public;
create or replace function jobforge_private.now() returns timestamptz language sql volatile
as $$ select c.at from public.clock as c $$;
"""


@dataclass(frozen=True, slots=True)
class Size:
    schedules: int
    schedulers: tuple[int, ...]
    idle_s: float


FULL = Size(schedules=10_000, schedulers=(1, 3), idle_s=20)
QUICK = Size(schedules=50, schedulers=(2,), idle_s=0.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny counts, to check that it works")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    figures = []
    with BenchServers(QUICK_SETTINGS if options.quick else SETTINGS) as servers:
        _install(servers)
        for figure in _measure(servers, size):
            print(format_figure(figure), flush=True)
            figures.append(figure)
    return 0 if options.quick or all(figure.is_met for figure in figures) else 1


def _measure(servers: BenchServers, size: Size) -> Iterator[Figure]:
    for schedulers in size.schedulers:
        print(f"… {size.schedules} schedules, {schedulers} schedulers", file=sys.stderr, flush=True)
        yield _due_at_once(servers, size, schedulers)
    for variant, environment in (("", {}), (" without LISTEN", {"JOBFORGE_BEHIND_POOLER": "true"})):
        print(f"… idle{variant}", file=sys.stderr, flush=True)
        yield _measure_idle(servers, size, variant, environment)


def _due_at_once(servers: BenchServers, size: Size, schedulers: int) -> Figure:
    with servers.fresh_database("schedules") as url, psycopg.connect(url, autocommit=True) as conn:
        conn.execute(_STOP_CLOCK)
        _add(conn, size.schedules)
        with _running(url, schedulers):
            started = time.monotonic()
            _wait(lambda: _count(conn, "triggers where next_run_at is not null"), size.schedules)
            planning_s = time.monotonic() - started
            analyze_and_checkpoint(conn)
            conn.execute("update public.clock set at = at + interval '30 seconds'")
            conn.execute("select jobforge_private.wake_scheduler()")
            started = time.monotonic()
            _wait(lambda: _count(conn, "firings where outcome = 'enqueued'"), size.schedules)
            fired_s = time.monotonic() - started
        jobs = _count(conn, "jobs")
    if jobs != size.schedules:
        raise BenchError(f"{jobs} jobs of {size.schedules} schedules")
    note = f"s; {size.schedules / fired_s:.0f} jobs/s, planned in {planning_s:.1f} s"
    name = f"{size.schedules} schedules due at once, {schedulers} scheduler(s)"
    return Figure(name, fired_s, 10, 0, note, lower_is_better=True)


def _measure_idle(
    servers: BenchServers, size: Size, variant: str, environment: dict[str, str]
) -> Figure:
    with (
        servers.without_autovacuum(),
        servers.fresh_database("schedules") as url,
        psycopg.connect(url, autocommit=True) as conn,
    ):
        _add(conn, 10)
        with _running(url, 1, **environment):
            _wait(lambda: _count(conn, "triggers where next_run_at is not null"), 10)
            time.sleep(min(15, size.idle_s))  # until the statistics include the scheduler's start
            value = servers.transactions_per_s(conn.info.dbname, size.idle_s)
    name = f"queries per second of an idle scheduler{variant}"
    return Figure(name, value, 2, 0, "", lower_is_better=True)


def _install(servers: BenchServers) -> None:
    url = servers.create_database("schedules")
    with psycopg.connect(url, autocommit=True) as conn:
        migrate(conn)
        conn.execute(
            "select jobforge.put_definition('report', 1, %s)", [Jsonb({"parameters": _SCHEMA})]
        )


def _add(conn: Connection, count: int) -> None:
    """Add schedules, 100 (the limit) per tenant; none is due for a month by the real clock."""
    settings = {
        "label": "every morning",
        "definition": "report",
        "cron": "0 9 1 6 *",
        "timezone": "UTC",
        "payload": {"at": "{{schedule.fire_at}}", "n": 1},
    }
    for first in range(0, count, 100):
        conn.execute(
            """
            select jobforge.create_trigger('schedule', %s, t.id)
              from (select jobforge_private.uuid7() as id) as t
             cross join lateral (select set_config('app.tenant_id', t.id::text, true)) as s
             cross join generate_series(1, %s)
            """,
            [Jsonb(settings), min(100, count - first)],
        )


@contextmanager
def _running(url: str, count: int, **environment: str) -> Iterator[None]:
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", "jobforge", "scheduler"],
            env={**os.environ, "JOBFORGE_DATABASE_URL": url, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for program in programs:
            program.terminate()
        for program in programs:
            program.wait(30)


def _wait(count: Callable[[], int], wanted: int) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while (found := count()) < wanted:
        if time.monotonic() > deadline:
            raise BenchError(f"{found} of {wanted} within {_LONGEST_S} s")
        time.sleep(_PAUSE_S)


def _count(conn: Connection, rows: str) -> int:
    (found,) = conn.execute(f"select count(*) from jobforge.{rows}".encode()).fetchone() or (0,)
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
