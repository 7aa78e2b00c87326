"""Measure the cost of a claim under load: `make bench-claims`.

The workloads are tenants at their concurrency cap, many definitions, and a long-lived snapshot.
Every figure is the ratio of two measurements in one run on one durable Postgres. `--quick` runs
every workload with small counts, to check that the benchmark works.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import psycopg
from bench_servers import QUICK_SETTINGS, SETTINGS, BenchServers, Connection
from measurements import percentile

from jobforge.db.migrate import migrate

CLAIM = "select * from jobforge.claim_jobs(%s, '{default}', array[%s], p_registered => %s)"
REGISTER = "select jobforge.register_worker(%s, '{default}', 50, %s)"
ENQUEUE = "select jobforge.enqueue_payloads('test', %s::jsonb, '{}', %s)"
SUCCEED = "select job_id from jobforge.succeed_jobs(%s, %s::uuid[], %s::uuid[], %s::bigint[])"
COLUMNS = "tenant_id, job_id, lease, extract(epoch from started_at - created_at)::float8"
TEMPLATE = "claims"


@dataclass(frozen=True, slots=True)
class Size:
    """Counts and durations of a run."""

    tenants: int
    definitions: int
    rounds: int
    rate: int  # jobs per second under a held snapshot
    calm_s: int
    held_s: int


FULL = Size(tenants=2_000, definitions=1_000, rounds=50, rate=800, calm_s=30, held_s=180)
QUICK = Size(tenants=100, definitions=50, rounds=5, rate=200, calm_s=3, held_s=6)


def tenant(number: int) -> UUID:
    return UUID(int=number + 1)


def time_claim(conn: Connection, worker: UUID, n: int, *, registered: bool = False) -> float:
    """Return the duration of one claim in seconds."""
    start = time.perf_counter()
    claim(conn, worker, n, registered=registered)
    return time.perf_counter() - start


def claim(conn: Connection, worker: UUID, n: int, *, registered: bool = False) -> list[Any]:
    return conn.execute(CLAIM.replace("*", COLUMNS, 1), [worker, n, registered]).fetchall()


def succeed(conn: Connection, worker: UUID, rows: list[Any]) -> list[Any]:
    """Settle these jobs; return those that another transaction has locked, to settle them later."""
    columns = [[row[i] for row in rows] for i in range(3)]
    busy = {job_id for (job_id,) in conn.execute(SUCCEED, [worker, *columns])}
    return [row for row in rows if row[1] in busy]


@contextmanager
def database(servers: BenchServers) -> Iterator[Connection]:
    with servers.fresh_database(TEMPLATE) as url, psycopg.connect(url, autocommit=True) as conn:
        conn.execute("select jobforge.put_definition('test', 1, '{}')")
        yield conn


def backlog(conn: Connection, tenants: int, n: int) -> None:
    payloads = "[" + ", ".join(["{}"] * n) + "]"
    for number in range(tenants):
        conn.execute(ENQUEUE, [payloads, tenant(number)])


def full_caps(servers: BenchServers, size: Size) -> None:
    """Compare claims where every tenant is at its cap with claims where no tenant has a cap."""
    worker, per_tenant = uuid4(), 10
    with database(servers) as capped, database(servers) as plain:
        for number in range(size.tenants):
            capped.execute(
                "select jobforge.put_tenant(%s, '{\"max_running\": 1}')", [tenant(number)]
            )
        # For a minute after a change of limits, claims also look for running jobs without a gate.
        capped.execute("update jobforge.tenants set updated_at = now() - interval '2 minutes'")
        backlog(capped, size.tenants, per_tenant)
        backlog(plain, size.tenants, per_tenant + 500 * size.rounds // size.tenants)
        running: list[Any] = []
        while rows := claim(capped, worker, 1000):
            running += rows
        for conn in (capped, plain):
            conn.execute("vacuum analyze jobforge.jobs")
        for limit in (10, 100):
            times: dict[str, list[float]] = {"plain": [], "empty": [], "one free": []}
            for _ in range(size.rounds):
                times["plain"].append(time_claim(plain, worker, limit))
                times["empty"].append(time_claim(capped, worker, limit))
                succeed(capped, worker, [running.pop()])
                start = time.perf_counter()
                running += claim(capped, worker, limit)
                times["one free"].append(time.perf_counter() - start)
            plain_s, *others = (statistics.median(sample) for sample in times.values())
            for name, seconds in zip(("empty claim", "claim of one slot"), others, strict=True):
                report(
                    f"{name} of {limit}, {size.tenants:,} tenants at their cap, ratio to uncapped",
                    seconds / plain_s,
                    3,
                    f"{plain_s * 1000:.2f} → {seconds * 1000:.2f} ms",
                )


def many_definitions(servers: BenchServers, size: Size) -> None:
    worker = uuid4()
    with database(servers) as few, database(servers) as many:
        for conn, count in ((few, 10), (many, size.definitions)):
            names = [f"module_{number % 20}.definition_{number}" for number in range(count)]
            for name in names:
                conn.execute("select jobforge.put_definition(%s, 1, '{}')", [name])
            conn.execute(REGISTER, [worker, ["test@1", *(f"{name}@1" for name in names)]])
            backlog(conn, 20, 10 * size.rounds)
            conn.execute("vacuum analyze jobforge.jobs, jobforge.definitions")
            claim(conn, worker, 1, registered=True)
        for limit in (1, 50):
            times: dict[Connection, list[float]] = {few: [], many: []}
            for _ in range(size.rounds):
                for conn, sample in times.items():
                    sample.append(time_claim(conn, worker, limit, registered=True))

            few_s, many_s = (statistics.median(sample) for sample in times.values())
            report(
                f"claim of {limit}, {size.definitions:,} definitions, ratio to ten definitions",
                many_s / few_s,
                1.3,
                f"{few_s * 1000:.2f} → {many_s * 1000:.2f} ms",
            )


@dataclass(slots=True)
class Load:
    """Enqueues jobs of twenty tenants at a steady rate, runs two claimers, and records delays."""

    url: str
    rate: int
    stopped: threading.Event = field(default_factory=threading.Event)
    delays: list[tuple[float, float]] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        works = (self._enqueue, self._claim, self._claim, self._reap)
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join()

    def percentile(self, start: float, end: float) -> float:
        return percentile([delay for at, delay in self.delays if start <= at < end], 0.99)

    def _enqueue(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as conn:
            start, sent = time.monotonic(), 0
            payloads = "[" + ", ".join(["{}"] * 8) + "]"
            while not self.stopped.is_set():
                while sent < (time.monotonic() - start) * self.rate:
                    conn.execute(ENQUEUE, [payloads, tenant(sent // 8 % 20)])
                    sent += 8
                time.sleep(0.005)

    def _claim(self) -> None:
        worker = uuid4()
        busy: list[Any] = []
        with psycopg.connect(self.url, autocommit=True) as conn:
            while not self.stopped.is_set():
                rows = claim(conn, worker, 50)
                self.delays.extend((time.monotonic(), row[3]) for row in rows)
                if rows or busy:
                    busy = succeed(conn, worker, rows + busy)
                else:
                    time.sleep(0.004)

    def _reap(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as conn:
            while not self.stopped.wait(1.9):
                conn.execute("select * from jobforge.reap_jobs()")


def held_snapshot(servers: BenchServers, size: Size) -> None:
    """Compare p99 from enqueue to start before, during and after another session's snapshot."""
    with database(servers) as conn:
        conn.execute("select jobforge.ensure_partitions()")
        load = Load(conn.info.dsn, size.rate)
        times = []
        with load.running():
            time.sleep(2)
            times.append(time.monotonic())
            time.sleep(size.calm_s)
            times.append(time.monotonic())
            with psycopg.connect(conn.info.dsn) as holder:
                holder.execute("set transaction isolation level repeatable read")
                holder.execute("select count(*) from jobforge.jobs")
                time.sleep(size.held_s)
            times.append(time.monotonic())
            time.sleep(size.calm_s)
            times.append(time.monotonic())
    calm, *others = (load.percentile(*pair) for pair in pairwise(times))
    for name, p99 in zip(("while a snapshot is held", "after the snapshot"), others, strict=True):
        report(
            f"p99 from enqueue to start at {size.rate} jobs/s {name}, ratio to before",
            p99 / calm,
            3,
            f"{calm * 1000:.1f} → {p99 * 1000:.1f} ms",
        )


def report(name: str, ratio: float, target: float, note: str) -> None:
    verdict = "met" if ratio <= target else "missed"
    print(f"{ratio:6.2f}  at most {target} ({verdict})  {name} ({note})", flush=True)


WORKLOADS = {
    "full_caps": full_caps,
    "many_definitions": many_definitions,
    "held_snapshot": held_snapshot,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "workloads", nargs="*", choices=[*WORKLOADS, []], help="workloads to run (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="small counts, to check that it works")
    options = parser.parse_args()
    # Autovacuum runs with its defaults, but more often: its work is part of what is measured.
    settings = {**(QUICK_SETTINGS if options.quick else SETTINGS), "autovacuum_naptime": "15s"}
    with BenchServers(settings) as servers:
        url = servers.create_database(TEMPLATE)
        with psycopg.connect(url, autocommit=True) as conn:
            migrate(conn)
        for name in options.workloads or WORKLOADS:
            WORKLOADS[name](servers, QUICK if options.quick else FULL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
