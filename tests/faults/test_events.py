"""Schedulers are killed while applications emit events, and commit or roll back."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database, connect_to, wait_until
from faults.scenario import SEED, times

KILLS = times(6, 100)
EVENTS_PER_KILL = 60  # at most, so that they die at all points of their work
BACKLOG = 100
PROCESSES = 3

pytestmark = pytest.mark.timeout(times(120, 3600))

Process = subprocess.Popen[bytes]


class Schedulers:
    """Processes of `jobforge scheduler`; none survives the test."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self.running: list[Process] = []

    def start(self) -> None:
        with (self._folder / "schedulers.log").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "jobforge", "scheduler"],
                cwd=self._folder,
                env={**os.environ, "JOBFORGE_DATABASE_URL": self._url},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.running.append(process)

    def kill(self, victim: Process) -> None:
        self.running.remove(victim)
        victim.send_signal(signal.SIGKILL)
        victim.wait()

    def kill_all(self) -> None:
        for process in list(self.running):
            self.kill(process)


@pytest.fixture
def schedulers(database: Database, folder: Path) -> Iterator[Schedulers]:
    created = Schedulers(database.url_as("worker_login"), folder)
    yield created
    created.kill_all()


class Application:
    """Emits events in small transactions, some of which are rolled back, until it is stopped."""

    def __init__(self, url: str, tenant: UUID) -> None:
        self.committed: set[UUID] = set()
        self.rolled_back: set[UUID] = set()
        self._url = url
        self._tenant = tenant
        self._chance = random.Random(SEED)  # noqa: S311 - a seed
        self._stopped = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        with ThreadPoolExecutor(1) as pool:
            emitting = pool.submit(self._run)
            try:
                yield
            finally:
                self._stopped.set()
            emitting.result()

    def _run(self) -> None:
        with connect_to(self._url) as conn, connect_to(self._url) as observer:
            while not self._stopped.is_set():
                commits = self._chance.random() < 0.6
                with conn.transaction(force_rollback=not commits):
                    emitted = [_emit(conn, self._tenant) for _ in range(self._chance.randint(1, 5))]
                (self.committed if commits else self.rolled_back).update(emitted)
                wait_until(lambda: self._stopped.is_set() or _waiting(observer) < BACKLOG)


def test_killed_schedulers_create_one_job_for_each_committed_event(
    database: Database, conn: Connection, schedulers: Schedulers, figures: dict[str, object]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a seed
    tenant = uuid4()
    _listen(conn, tenant)
    application = Application(database.url, tenant)
    interrupted = 0
    for _ in range(PROCESSES):
        schedulers.start()
    with application.running():
        for _ in range(KILLS):
            goal = _dispatched(conn) + chance.randrange(1, EVENTS_PER_KILL)
            wait_until(lambda goal=goal: _dispatched(conn) >= goal)  # type: ignore[misc]
            schedulers.kill(chance.choice(schedulers.running))
            interrupted += _waiting(conn) > 0
            schedulers.start()
    # Reservations of the killed schedulers expire after some seconds.
    wait_until(lambda: _waiting(conn) == 0, within_s=60)
    schedulers.kill_all()

    jobs = conn.execute("select source_ref from jobforge.jobs").fetchall()
    made_of = Counter(UUID(job["source_ref"]) for job in jobs)
    committed, rolled_back = application.committed, application.rolled_back
    figures |= {
        "events": len(committed),
        "rolled back": len(rolled_back),
        "kills": KILLS,
        "kills with events pending": interrupted,
    }
    assert made_of == Counter(committed)
    assert rolled_back
    assert not rolled_back & made_of.keys()
    deliveries = conn.execute("select event_id, outcome from jobforge.event_deliveries").fetchall()
    assert Counter(row["event_id"] for row in deliveries) == Counter(committed)
    assert {row["outcome"] for row in deliveries} == {"enqueued"}


def _listen(conn: Connection, tenant: UUID) -> None:
    conn.execute("select jobforge.put_definition('ship', 1)")
    settings = {
        "label": "ship it",
        "definition": "ship",
        "event": "order.*",
        "payload": {"event": "{{meta.id}}"},
    }
    conn.execute("select jobforge.create_trigger('event', %s, %s)", [json.dumps(settings), tenant])


def _emit(conn: Connection, tenant: UUID) -> UUID:
    row = conn.execute(
        "select jobforge.emit_event('order.paid', '{}', '{}', %s) as id", [tenant]
    ).fetchone()
    assert row
    return UUID(str(row["id"]))


def _dispatched(conn: Connection) -> int:
    row = conn.execute("select count(*) as n from jobforge.event_deliveries").fetchone()
    assert row
    return int(row["n"])


def _waiting(conn: Connection) -> int:
    row = conn.execute("select count(*) as n from jobforge.outbox").fetchone()
    assert row
    return int(row["n"])
