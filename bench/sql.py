"""Measure the cost of the SQL functions: `make bench-sql`.

Every figure is the ratio of two measurements that alternate on one durable Postgres, as the median
of several rounds, so that noise of the machine affects both. `--quick` runs every workload with
small counts, to check that the benchmark works.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import fan_in_rates
import floor_sql
import orjson
import psycopg
from bench_servers import QUICK_SETTINGS, SETTINGS
from sql_bench import BATCH, Bench, Size, add_history, drain, tenant

from jobforge.db.migrate import migrate
from jobforge.embedded import Embedded

ENQUEUE = "select count(*) from jobforge.enqueue_jobs(%s::jsonb, %s)"


@dataclass(frozen=True, slots=True)
class Figure:
    """A result: a ratio, or milliseconds, with its target and its spread over the rounds."""

    name: str
    value: float
    target: float
    spread: float
    note: str
    lower_is_better: bool = False

    @property
    def is_met(self) -> bool:
        return self.value <= self.target if self.lower_is_better else self.value >= self.target


FULL = Size(
    rounds=5,
    drain=20_000,
    small=10_000,
    large=1_000_000,
    tenants=10_000,
    queued_of_tenants=500_000,
    history=5_000_000,
    passing=300_000,
    bulk=20_000,
)
QUICK = Size(
    rounds=2,
    drain=1_000,
    small=500,
    large=5_000,
    tenants=100,
    queued_of_tenants=5_000,
    history=5_000,
    passing=5_000,
    bulk=1_000,
)


def ratio_figure(name: str, ratios: list[float], target: float, note: str = "") -> Figure:
    return Figure(name, statistics.median(ratios), target, max(ratios) - min(ratios), note)


def one_tenant(bench: Bench) -> Iterator[Figure]:
    size = bench.size
    bench.clear()
    bench.fill((size.drain + BATCH) * size.rounds)
    rates: list[float] = []

    def rate_of_jobforge() -> float:
        rates.append(bench.rate_of_jobforge(size.drain))
        return rates[-1]

    ratios = bench.compare(rate_of_jobforge, lambda: bench.rate_of_floor(size.drain))
    yield ratio_figure(
        "claim + complete, 1 tenant, ratio to the floor",
        ratios,
        0.7,
        f"{statistics.median(rates):,.0f} jobs/s",
    )


def many_tenants(bench: Bench) -> Iterator[Figure]:
    size = bench.size
    bench.clear()
    bench.fill(size.queued_of_tenants, size.tenants)
    ratios = bench.compare(
        lambda: bench.rate_of_jobforge(size.drain), lambda: bench.rate_of_floor(size.drain)
    )
    yield ratio_figure(
        f"claim + complete, {size.tenants:,} tenants, {size.queued_of_tenants:,} queued, of floor",
        ratios,
        0.5,
    )


def backlog(bench: Bench) -> Iterator[Figure]:
    """Compare the first jobs of a large backlog with those of a small one."""
    size = bench.size
    ratios = []
    for number in range(size.rounds):
        rates = {}
        order = (size.small, size.large) if number % 2 else (size.large, size.small)
        for jobs in order:
            bench.clear()
            bench.fill(jobs + BATCH)
            rates[jobs] = bench.rate_of_jobforge(size.small)
        ratios.append(rates[size.large] / rates[size.small])
    yield ratio_figure(
        f"rate with {size.large:,} queued, ratio to {size.small:,} queued", ratios, 0.9
    )


def history(bench: Bench) -> Iterator[Figure]:
    """Compare a database that has a history with one that has none."""
    size = bench.size
    old = bench.on_new_database("history")
    for side in (bench, old):
        side.clear()
    add_history(old.conn, size.history)
    old.analyze_and_checkpoint()

    def rate(side: Bench) -> float:
        side.conn.execute("truncate jobforge.jobs, floor.jobs")
        side.fill(size.small + BATCH)
        return side.rate_of_jobforge(size.small)

    ratios = bench.compare(lambda: rate(old), lambda: rate(bench))
    yield ratio_figure(f"rate with {size.history:,} finished, ratio to none", ratios, 0.9)
    yield from listing(old)
    old.conn.close()


def listing(bench: Bench) -> Iterator[Figure]:
    """Measure a page of one tenant's jobs in a database with a history."""
    times = []
    query = "select count(*) from jobforge.list_jobs('{}', 50, null, %s)"
    for number in range(-5, 20):
        start = time.perf_counter()
        row = bench.conn.execute(query, [tenant(number % 7)]).fetchone()
        if number >= 0:
            times.append((time.perf_counter() - start) * 1000)
        if row != (50,):
            raise RuntimeError(f"a page had {row} jobs")
    yield Figure(
        "listing 50 jobs of a tenant over 60 days, ms",
        statistics.median(times),
        5,
        max(times) - min(times),
        "",
        lower_is_better=True,
    )


def held_snapshot(bench: Bench) -> Iterator[Figure]:
    size = bench.size
    for wanted in (1, 1_000):
        tenants = min(wanted, size.passing // 50)
        passes = [churn_jobs(bench, tenants) for _ in range(min(3, size.rounds))]
        first, last = (statistics.median(side) for side in zip(*passes, strict=True))
        yield ratio_figure(
            f"held snapshot, {tenants:,} tenants, {size.passing:,} jobs: last tenth to first",
            [last / first for first, last in passes],
            0.8,
            f"{first:,.0f} → {last:,.0f} jobs/s",
        )


def churn_jobs(bench: Bench, tenants: int) -> tuple[float, float]:
    """Enqueue and run jobs while a snapshot prevents any cleanup; one job in ten fails once.

    Returns the rates of the first and of the last tenth of the jobs.
    """
    bench.clear()
    bench.analyze_and_checkpoint()
    step = bench.size.passing // 50
    rates = []
    with hold_snapshot(bench), bench.connect() as conn:
        for _ in range(50):
            for number in range(tenants):
                jobs = [{"definition": "noop", "payload": {"n": 1}}] * (step // tenants)
                conn.execute(ENQUEUE, [orjson.dumps(jobs).decode(), tenant(number)])
            start = time.perf_counter()
            done = drain(conn, bench.worker, step, failing=10)
            rates.append(done / (time.perf_counter() - start))
    return statistics.median(rates[:5]), statistics.median(rates[-5:])


@contextmanager
def hold_snapshot(bench: Bench) -> Iterator[None]:
    with psycopg.connect(bench.url) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select count(*) from jobforge.jobs")
        yield


def bulk_enqueue(bench: Bench) -> Iterator[Figure]:
    size = bench.size
    bench.clear()
    jobs = [{"definition": "noop", "payload": {"n": n}} for n in range(size.bulk)]
    document = orjson.dumps(jobs).decode()
    bench.conn.execute("create table floor.copied (like jobforge.jobs including all)")
    into = floor_sql.COPY.replace("floor.jobs", "floor.copied")

    def enqueue() -> float:
        start = time.perf_counter()
        bench.conn.execute(ENQUEUE, [document, tenant(0)])
        return size.bulk / (time.perf_counter() - start)

    def copied() -> float:
        rows = floor_sql.format_copy_rows(tenant(0), range(size.bulk))
        start = time.perf_counter()
        with bench.conn.cursor() as cursor, cursor.copy(into) as copy:
            copy.write(rows)
        return size.bulk / (time.perf_counter() - start)

    rates: list[float] = []

    def counted() -> float:
        rates.append(enqueue())
        return rates[-1]

    yield ratio_figure(
        f"bulk enqueue of {size.bulk:,}, ratio to COPY into a table of the same shape",
        bench.compare(counted, copied),
        0.5,
        f"{statistics.median(rates):,.0f} jobs/s",
    )


def fan_in(bench: Bench) -> Iterator[Figure]:
    jobs = bench.size.small
    rates: list[float] = []

    def joined() -> float:
        rates.append(fan_in_rates.fan_in(bench, jobs))
        return rates[-1]

    yield ratio_figure(
        f"settling {jobs:,} parents of one job, ratio to independent jobs",
        bench.compare(joined, lambda: fan_in_rates.plain(bench, jobs)),
        0.5,
        f"{statistics.median(rates):,.0f} jobs/s",
    )


WORKLOADS = {
    "one_tenant": one_tenant,
    "many_tenants": many_tenants,
    "backlog": backlog,
    "history": history,
    "held_snapshot": held_snapshot,
    "bulk_enqueue": bulk_enqueue,
    "fan_in": fan_in,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "workloads", nargs="*", choices=[*WORKLOADS, []], help="workloads to run (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="small counts, to check that it works")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    figures = []
    with tempfile.TemporaryDirectory(prefix="jobforge-bench-") as folder:
        Path(folder).chmod(0o755)
        embedded = Embedded(
            Path(folder) / "pg", settings=QUICK_SETTINGS if options.quick else SETTINGS
        )
        url = embedded.start()
        try:
            with psycopg.connect(url, autocommit=True) as conn:
                migrate(conn)
            bench = Bench(url, QUICK if options.quick else FULL)
            for name in options.workloads or WORKLOADS:
                print(f"… {name}", file=sys.stderr, flush=True)
                for result in WORKLOADS[name](bench):
                    print(format_figure(result), flush=True)
                    figures.append(result)
        finally:
            embedded.stop()
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in figures], indent=2))
    return 0 if options.quick or all(result.is_met for result in figures) else 1


def format_figure(result: Figure) -> str:
    mark = "✓" if result.is_met else "✗"
    sign = "≤" if result.lower_is_better else "≥"
    return (
        f"{mark} {result.name:<72} {result.value:6.2f} (target {sign} {result.target}, "
        f"spread {result.spread:.2f}) {result.note}"
    )


if __name__ == "__main__":
    sys.exit(main())
