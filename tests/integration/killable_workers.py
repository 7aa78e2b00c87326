"""Workers in separate processes that tests kill, and their jobs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster import Clock, Connection, Database
from integration.call_setup import TENANT_A
from integration.killed_app import jf

from jobforge import Handle, calls, db
from jobforge.types.job_history import JobHistory

APP = Path(__file__).with_name("killed_app.py")

# In database time, which the test moves past the lease.
LEASE_S = 30


class KillableWorkers:
    """A database with the app's definitions, and workers that tests may kill."""

    def __init__(self, database: Database, conn: Connection, clock: Clock, folder: Path) -> None:
        self._log = folder / "workers.log"
        self.url = database.url_as("service_login")
        self._worker_url = database.url_as("worker_login")
        self._conn = conn
        self._clock = clock
        for call in jf.registrations():
            db.run(conn, call)
        conn.execute("create table effects (fence text primary key, attempt integer)")
        conn.execute("grant select, insert on effects to service_login")

    def enqueue(self, definition: str, **payload: Any) -> Handle[Any]:
        return jf.definitions[definition].using(tenant=TENANT_A).enqueue(**payload)

    @contextmanager
    def worker(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Start a worker with one slot, so that a job starts after the previous one has been
        reported.
        """
        command = [sys.executable, "-m", "jobforge", "worker", str(APP), "--queues", "default:1"]
        settings = {"JOBFORGE_DATABASE_URL": self._worker_url, "JOBFORGE_LOG_FORMAT": "json"}
        with (
            self._log.open("ab") as log,
            subprocess.Popen(
                [*command, "--until-stdin-closes"],
                env={**os.environ, **settings},
                stdin=subprocess.PIPE,
                stderr=log,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def wait_for_reports(self) -> None:
        """Wait until a worker has reported all jobs that were enqueued before."""
        self.enqueue("nothing").wait(60)

    def wait_for_death(self, worker: "subprocess.Popen[bytes]") -> None:
        """Wait until the worker has died, and move the clock past its leases."""
        assert worker.wait(60) < 0
        self._clock.travel(seconds=LEASE_S + 1)

    def history(self, handle: Handle[Any]) -> JobHistory:
        return db.run(self._conn, calls.get_job(handle.id, tenant_id=TENANT_A))

    def has_logged(self, handle: Handle[Any], **fields: str) -> bool:
        """Return whether a worker logged a line about this job with these fields."""
        lines = map(json.loads, self._log.read_text().splitlines())
        wanted = {"job_id": str(handle.id), **fields}
        return any(wanted.items() <= line.items() for line in lines)

    def effects(self) -> list[int]:
        """Return the attempts whose effect is stored."""
        rows = self._conn.execute("select attempt from effects order by attempt")
        return [int(row["attempt"]) for row in rows]

    def events(self) -> list[tuple[str, str]]:
        """Return what jobs have emitted, oldest first."""
        rows = self._conn.execute(
            "select data from jobforge.job_events where kind = 'event' order by at"
        )
        return [(row["data"]["name"], row["data"]["data"]) for row in rows]


@contextmanager
def open_killable_workers(
    database: Database, conn: Connection, clock: Clock, folder: Path
) -> Iterator[KillableWorkers]:
    workers = KillableWorkers(database, conn, clock, folder)
    with jf.connected_to(workers.url):
        yield workers
