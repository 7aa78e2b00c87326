"""One run: a database with a ledger, an oracle beside it, and how the run is brought to its end."""

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
from faults.workers import Crew, Worker
from sql.ledger import Ledger

from jobforge.types.jobs import JobRequest

SEED = int(os.environ.get("JOBFORGE_SEED", "20261115"))
IS_LONG = "JOBFORGE_LONG" in os.environ


def times(short: int, long: int) -> int:
    """How often a fault is made: in every run of the tests, and in `make faults`."""
    return long if IS_LONG else short


@dataclass(slots=True)
class Trial:
    """What a fault test works with. Made in a fresh database, before any worker."""

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
        """The superuser's; opened anew after a crash of the server."""
        if self._conn is None or self._conn.broken:
            self._conn = connect_to(self.database.url)
            self.ledger = _InstalledLedger(self._conn)
        return self._conn

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()

    def crew(self, url: str | None = None, **settings: Any) -> Crew:
        """Settings are those of Crew."""
        return Crew(url or self.database.url_as("worker_login"), self.folder, **settings)

    def producer(self, url: str | None = None) -> Producer:
        return Producer(url or self.database.url_as("service_login"), self.oracle)

    def request(self, definition: str = "work", **arguments: Any) -> JobRequest:
        return JobRequest(definition, {"marks": str(self.oracle.marks_file), **arguments})

    def some_job(self, chance: random.Random) -> JobRequest:
        """Short, isolated or inline; some fail once or twice before they succeed."""
        definition = chance.choice(["work", "work", "light"])
        failures = chance.choice([0, 0, 0, 0, 1, 2])
        return self.request(definition, seconds=chance.uniform(0.0, 0.4), failures=failures)

    def gate(self, name: str = "gate") -> Path:
        """Jobs that hold wait for this file to exist."""
        return self.folder / name

    def values(self, query: str, *arguments: object) -> list[Any]:
        """The first column; nothing while the server is down."""
        try:
            rows = self.conn.execute(query.encode(), arguments).fetchall()
        except psycopg.OperationalError:
            return []
        return [next(iter(row.values())) for row in rows]

    def value(self, query: str, *arguments: object) -> Any:
        [value] = self.values(query, *arguments) or [None]
        return value

    def id_of(self, worker: Worker) -> UUID | None:
        """The identity under which a process has registered; none so far."""
        query = "select id from jobforge.workers where pid = %s order by started_at desc limit 1"
        found = self.value(query, worker.pid)
        assert found is None or isinstance(found, UUID)
        return found

    def has_come_to(self, ends: int) -> bool:
        """Whether so many handlers have come to their end."""
        return self.oracle.count("exit") >= ends

    def leases_of(self, job: UUID) -> list[int]:
        """Those under which a handler has entered, in the order of time."""
        marks = self.oracle.marks()
        return [mark.lease for mark in marks if mark.job == job and mark.what == "enter"]

    def wait_until_ready(self, *workers: Worker) -> None:
        wait_until(lambda: all(_alive(worker) and self.id_of(worker) for worker in workers))

    def wait_until_busy(self, worker: Worker) -> None:
        wait_until(lambda: bool(_alive(worker) and self.running_on(worker)))

    def pick_busy(self, crew: Crew, chance: random.Random) -> Worker:
        """One of the workers that hold a lease, as soon as there are any."""
        wait_until(lambda: any(map(self.running_on, crew.members)))
        busy = [worker for worker in crew.members if self.running_on(worker)]
        return chance.choice(busy or crew.members)

    def running_on(self, worker: Worker) -> list[UUID]:
        """The jobs whose leases a worker holds, alive or not."""
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
        """None while the server is down."""
        found = self.value("select count(*) from jobforge.jobs")
        return None if found is None else int(found)

    def outcomes(self) -> dict[str, int]:
        rows = self.conn.execute(
            "select outcome, count(*) as n from jobforge.all_attempts group by 1 order by 1"
        ).fetchall()
        return {row["outcome"]: row["n"] for row in rows}

    def ends(self) -> dict[Lease, float]:
        """When each lease ended, by the database."""
        rows = self.conn.execute("select job_id, lease, ended_at from jobforge.all_attempts")
        return {(row["job_id"], row["lease"]): row["ended_at"].timestamp() for row in rows}

    def finish(self, crew: Crew, *, within_s: float = 60) -> None:
        """I3: all jobs come to their end in time, and the workers then end in peace."""
        wait_within(within_s, lambda: self.unfinished() == 0, self._what_is_left)
        self.wait_until_ready(*crew.members)  # a process that only starts dies of a signal
        crew.drain()
        wait_until(lambda: not self.oracle.survivors())  # I23

    def check(self, *, claims_vanish: bool = False) -> Evidence:
        """All invariants; returns what the run has left behind."""
        invariants.check(self.conn, self.oracle, self.ledger, claims_vanish=claims_vanish)
        return Evidence.gather(self.conn, self.oracle)

    def _what_is_left(self) -> str:
        left = self.conn.execute(
            "select id, state, attempt, run_at, lease_expires_at, worker_id, error"
            "  from jobforge.jobs limit 5"
        ).fetchall()
        logs = sorted(self.folder.glob("*-*.log"))
        words = [f"{log.name}: {log.read_text(errors='replace')[-1500:]}" for log in logs[-3:]]
        return "\n".join([f"{self.unfinished()} jobs are left", *map(str, left), *words])


class _InstalledLedger(Ledger):
    """The ledger of a database that has one, over a new connection."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn


def spread_of(seconds: Iterable[float]) -> dict[str, float]:
    """The middle, the 99th part of a hundred and the end, for a report."""
    ordered = sorted(seconds)
    if not ordered:
        return {}
    places = {"p50": len(ordered) // 2, "p99": len(ordered) * 99 // 100, "max": -1}
    return {name: round(ordered[place], 3) for name, place in places.items()}


def wait_within(seconds: float, condition: Callable[[], bool], why: Callable[[], str]) -> None:
    """As wait_until, with a time of its own, for ends that take a while to come."""
    wait_until(condition, within_s=seconds, poll_s=0.02, why=why)


def _alive(worker: Worker) -> bool:
    assert worker.is_alive, worker.last_words()
    return True
