"""Databases of the SQL benchmark: the same backlog in JobForge's tables and in the floor's."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4, uuid5

import floor_sql
import orjson
import psycopg
from psycopg.conninfo import make_conninfo

from jobforge.db.migrate import migrate
from jobforge.db.schema_files import SQL

Connection = psycopg.Connection[tuple[Any, ...]]

BATCH = 500
CLAIM = "select * from jobforge.claim_jobs(%s, '{default}', array[%s::integer])"
COMPLETE = "select * from jobforge.complete_jobs(%s, %s::jsonb)"


@dataclass(frozen=True, slots=True)
class Size:
    """Counts of a run."""

    rounds: int
    drain: int
    small: int
    large: int
    tenants: int
    queued_of_tenants: int
    history: int
    passing: int
    bulk: int


def tenant(number: int) -> UUID:
    """Return a tenant ID; the order of the IDs is independent of the numbers."""
    return uuid5(UUID(int=0), str(number))


class Bench:
    """A database with JobForge's tables and the floor's."""

    def __init__(self, url: str, size: Size) -> None:
        self.url = url
        self.size = size
        self.worker = uuid4()
        self.conn = self.connect()

    def connect(self) -> Connection:
        return connect(self.url)

    def on_new_database(self, name: str) -> "Bench":
        """Return a Bench with the same size on a new database of the same server."""
        self.conn.execute(f"create database {name}".encode())
        url = make_conninfo(self.url, dbname=name)
        with psycopg.connect(url, autocommit=True) as conn:
            migrate(conn)
        return Bench(url, self.size)

    def clear(self) -> None:
        self.conn.execute(
            "truncate jobforge.jobs, jobforge.finished_jobs, jobforge.attempts, jobforge.tenants"
        )
        self.conn.execute("select jobforge.put_definition('noop', 1, '{\"backoff_base_s\": 0.2}')")
        self.conn.execute(floor_sql.SCHEMA, prepare=False)

    def fill(self, jobs: int, tenants: int = 1) -> None:
        """Add the same backlog to JobForge's table and the floor's."""
        add_backlog(self.conn, jobs, tenants)
        self.conn.execute("insert into floor.jobs select * from jobforge.jobs")
        self.analyze_and_checkpoint()

    def analyze_and_checkpoint(self) -> None:
        for table in ("jobforge.jobs", "floor.jobs", "jobforge.finished_jobs"):
            self.conn.execute(f"vacuum analyze {table}".encode())
        self.conn.execute("checkpoint")

    def rate_of_jobforge(self, jobs: int) -> float:
        """Claim and complete this number of jobs in JobForge; return jobs per second."""
        return self._rate(jobs, lambda conn, count: drain(conn, self.worker, count))

    def rate_of_floor(self, jobs: int) -> float:
        return self._rate(
            jobs, lambda conn, count: floor_sql.drain(conn, self.worker, count, BATCH)
        )

    def _rate(self, jobs: int, work: Callable[[Connection, int], int]) -> float:
        with self.connect() as conn:
            work(conn, BATCH)  # the first calls of a session plan its statements
            start = time.perf_counter()
            done = work(conn, jobs)
            elapsed = time.perf_counter() - start
        if done < jobs:
            raise RuntimeError(f"expected {jobs} jobs to be done, got {done}")
        return done / elapsed

    def compare(self, measured: Callable[[], float], base: Callable[[], float]) -> list[float]:
        """Return one ratio per round; the two sides alternate in being first."""
        ratios = []
        for number in range(self.size.rounds):
            sides = (measured, base) if number % 2 else (base, measured)
            first, second = (side() for side in sides)
            ratios.append(second / first if number % 2 == 0 else first / second)
        return ratios


def connect(url: str) -> Connection:
    """Return a connection that prepares statements at their second execution."""
    conn = psycopg.connect(url, autocommit=True)
    conn.prepare_threshold = 1
    return conn


def add_backlog(
    conn: Connection, jobs: int, tenants: int = 1, table: str = "jobforge.jobs"
) -> None:
    """Add a backlog by plain inserts, because its creation is not measured."""
    conn.execute(
        f"""
        insert into {table} (tenant_id, id, created_at, run_at, queued_at, version,
                             max_attempts, allowance, state, definition, queue, payload)
        select t.ids[1 + n %% cardinality(t.ids)], jobforge_private.nth_id(f.id, n), now(), now(),
               now(), 1, 5, 5, 'queued', 'noop', 'default', jsonb_build_object('n', n)
          from (select %s::uuid[] as ids) as t, (select jobforge_private.uuid7() as id) as f,
               generate_series(1, %s) as n
        """.encode(),
        [[tenant(number) for number in range(tenants)], jobs],
    )


def add_history(conn: Connection, jobs: int) -> None:
    """Add finished jobs of 100 tenants over 60 days, each day in its partition."""
    if not jobs:
        return
    conn.execute(
        """
        create or replace function jobforge_private.now() returns timestamptz language sql
        as 'select clock_timestamp() - interval ''59 days'''
        """
    )
    conn.execute("select jobforge.ensure_partitions(66)")
    conn.execute((SQL / "functions" / "foundation" / "now.sql").read_bytes())
    conn.execute(
        """
        insert into jobforge.finished_jobs (
               tenant_id, id, lease, created_at, run_at, queued_at, started_at, finished_at,
               worker_id, version, attempt, max_attempts, allowance, priority, flags, state,
               definition, queue, source, payload)
        select t.ids[1 + n %% 100], jobforge_private.nth_id(f.id, n), 1, f.at, f.at, f.at, f.at,
               now() - interval '59 days' * n / %s, t.ids[1], 1, 1, 5, 5, 0, 0, 'succeeded', 'noop',
               'default', 'manual', '{"n": 1}'
          from (select %s::uuid[] as ids) as t,
               (select jobforge_private.uuid7() as id, now() as at) as f,
               generate_series(1, %s) as n
        """,
        [jobs, [tenant(number) for number in range(100)], jobs],
    )


def drain(
    conn: Connection, worker: UUID, jobs: int, *, failing: int = 0, batch: int = BATCH
) -> int:
    """Claim and complete until `jobs` are done or none is left; `failing` in 100 fail once."""
    done = 0
    while done < jobs:
        rows = conn.execute(CLAIM, [worker, min(batch, jobs - done)], binary=True).fetchall()
        if not rows:
            break
        outcomes = [
            {
                "tenant_id": row[0],
                "job_id": row[1],
                "lease": row[2],
                "started_at": row[14],
                "outcome": "failed" if row[8] == 1 and row[1].int % 100 < failing else "succeeded",
            }
            for row in rows
        ]
        answers = conn.execute(COMPLETE, [worker, orjson.dumps(outcomes).decode()]).fetchall()
        if any(answer[2] != "ok" for answer in answers):
            raise RuntimeError("a completion was refused")
        done += sum(outcome["outcome"] == "succeeded" for outcome in outcomes)
    return done
