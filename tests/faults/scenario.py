"""A fault scenario: a database with a ledger, the oracle, and the steps that finish and check a
run."""

import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from cluster import Connection, Database, connect_to, wait_until
from faults import invariants
from faults.invariants import Evidence, Lease
from faults.oracle import Oracle
from faults.producer import Producer
from faults.workers import Worker, WorkerGroup
from sql.ledger import Ledger

from jobforge.types.jobs import JobRequest

SEED = int(os.environ.get("JOBFORGE_SEED", "20261115"))
IS_LONG = "JOBFORGE_LONG" in os.environ


def times(short: int, long: int) -> int:
    """Return how often to cause a fault: `short` in every run of the tests, `long` in `make
    faults`."""
    return long if IS_LONG else short


@dataclass(slots=True)
class Scenario:
    """The tools of a fault test, created in a fresh database before any worker."""

    database: Database
    folder: Path
    oracle: Oracle = field(init=False)
    ledger: Ledger = field(init=False)
    _conn: Connection | None = None

    def __post_init__(self) -> None:
        self.oracle = Oracle(self.folder)
        self.oracle.acknowledge([])
        self._conn = connect_to(self.database.url)
        self.ledger = Ledger(self._conn)

    @property
    def conn(self) -> Connection:
        """The superuser's connection; reopened after a crash of the server."""
        if self._conn is None or self._conn.broken:
            self._conn = connect_to(self.database.url)
            self.ledger = _InstalledLedger(self._conn)
        return self._conn

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()

    def worker_group(self, url: str | None = None, **settings: Any) -> WorkerGroup:
        """Return a group of workers with these settings of WorkerGroup."""
        return WorkerGroup(url or self.database.url_as("worker_login"), self.folder, **settings)

    def producer(self, url: str | None = None) -> Producer:
        return Producer(url or self.database.url_as("service_login"), self.oracle)

    def request(self, definition: str = "work", **arguments: Any) -> JobRequest:
        return JobRequest(definition, {"marks": str(self.oracle.marks_file), **arguments})

    def random_job(self, chance: random.Random) -> JobRequest:
        """Return a short job, isolated or inline; some fail once or twice before they succeed."""
        definition = chance.choice(["work", "work", "light"])
        failures = chance.choice([0, 0, 0, 0, 1, 2])
        return self.request(definition, seconds=chance.uniform(0.0, 0.4), failures=failures)

    def gate(self, name: str = "gate") -> Path:
        """Return the file that `hold` jobs wait for."""
        return self.folder / name

    def values(self, query: str, *arguments: object) -> list[Any]:
        """Return the first column, or nothing while the server is down."""
        try:
            rows = self.conn.execute(query.encode(), arguments).fetchall()
        except psycopg.OperationalError:
            return []
        return [next(iter(row.values())) for row in rows]

    def value(self, query: str, *arguments: object) -> Any:
        [value] = self.values(query, *arguments) or [None]
        return value

    def id_of(self, worker: Worker) -> UUID | None:
        """Return the ID under which a process has registered, or None if it has not."""
        query = "select id from jobforge.workers where pid = %s order by started_at desc limit 1"
        found = self.value(query, worker.pid)
        assert found is None or isinstance(found, UUID)
        return found

    def has_finished(self, ends: int) -> bool:
        """Return whether at least this many handlers have finished."""
        return self.oracle.count("exit") >= ends

    def leases_of(self, job: UUID) -> list[int]:
        """Return the leases under which a handler of the job has started, in order of time."""
        marks = self.oracle.marks()
        return [mark.lease for mark in marks if mark.job == job and mark.what == "enter"]

    def wait_until_ready(self, *workers: Worker) -> None:
        wait_until(lambda: all(_alive(worker) and self.id_of(worker) for worker in workers))

    def wait_until_busy(self, worker: Worker) -> None:
        wait_until(lambda: bool(_alive(worker) and self.running_on(worker)))

    def pick_busy(self, group: WorkerGroup, chance: random.Random) -> Worker:
        """Return one of the workers with a running job, as soon as there is one."""
        wait_until(lambda: any(map(self.running_on, group.members)))
        busy = [worker for worker in group.members if self.running_on(worker)]
        return chance.choice(busy or group.members)

    def running_on(self, worker: Worker) -> list[UUID]:
        """Return the jobs whose leases a worker holds, whether it is alive or not."""
        return self.held_by(self.id_of(worker))

    def held_by(self, worker_id: UUID | None) -> list[UUID]:
        return self.values(
            "select id from jobforge.jobs where state = 'running' and worker_id = %s", worker_id
        )

    def leases_left_by(self, worker: Worker) -> list[Lease]:
        rows = self.conn.execute(
            "select id, lease from jobforge.jobs where state = 'running' and worker_id = %s",
            [self.id_of(worker)],
        ).fetchall()
        return [(row["id"], row["lease"]) for row in rows]

    def count(self, state: str) -> int:
        query = "select count(*) from jobforge.all_jobs where state = %s"
        return int(self.value(query, state) or 0)

    def unfinished(self) -> int | None:
        """Return the number of unfinished jobs, or None while the server is down."""
        found = self.value("select count(*) from jobforge.jobs")
        return None if found is None else int(found)

    def outcomes(self) -> dict[str, int]:
        rows = self.conn.execute(
            "select outcome, count(*) as n from jobforge.all_attempts group by 1 order by 1"
        ).fetchall()
        return {row["outcome"]: row["n"] for row in rows}

    def ends(self) -> dict[Lease, float]:
        """Return when each lease ended, according to the database."""
        rows = self.conn.execute("select job_id, lease, ended_at from jobforge.all_attempts")
        return {(row["job_id"], row["lease"]): row["ended_at"].timestamp() for row in rows}

    def finish(self, group: WorkerGroup, *, within_s: float = 60) -> None:
        """Check that all jobs finish in time and that the workers then drain without errors."""
        wait_within(within_s, lambda: self.unfinished() == 0, self._describe_unfinished)
        self.wait_until_ready(*group.members)  # SIGTERM kills a starting process
        group.drain()
        wait_until(lambda: not self.oracle.survivors())

    def check(self, *, claims_vanish: bool = False) -> Evidence:
        """Check all invariants; return the records of the run."""
        invariants.check(self.conn, self.oracle, self.ledger, claims_vanish=claims_vanish)
        return Evidence.gather(self.conn, self.oracle)

    def _describe_unfinished(self) -> str:
        left = self.conn.execute(
            "select id, state, attempt, run_at, lease_expires_at, worker_id, error"
            "  from jobforge.jobs limit 5"
        ).fetchall()
        logs = sorted(self.folder.glob("*-*.log"))
        words = [f"{log.name}: {log.read_text(errors='replace')[-1500:]}" for log in logs[-3:]]
        return "\n".join([f"{self.unfinished()} jobs are left", *map(str, left), *words])


class _InstalledLedger(Ledger):
    """The ledger of a database that already has one, over a new connection."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn


def spread_of(seconds: Iterable[float]) -> dict[str, float]:
    """Return the median, the 99th percentile and the maximum, for a report."""
    ordered = sorted(seconds)
    if not ordered:
        return {}
    places = {"p50": len(ordered) // 2, "p99": len(ordered) * 99 // 100, "max": -1}
    return {name: round(ordered[place], 3) for name, place in places.items()}


def wait_within(seconds: float, condition: Callable[[], bool], why: Callable[[], str]) -> None:
    """Wait like wait_until, with an explicit timeout, for conditions that take a while."""
    wait_until(condition, within_s=seconds, poll_s=0.02, why=why)


def _alive(worker: Worker) -> bool:
    assert worker.is_alive, worker.log_tail()
    return True
