"""Load for the live stream: jobs of several tenants, whose history is committed out of order.

The load's workers are threads that call the engine as a worker does. One job in ten fails once, one
in twenty is canceled while it runs, and each records its progress and an event. Every transaction
that writes history stays open for a random time, so that later transactions commit before it.
"""

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from uuid import UUID, uuid4

import psycopg
from bench_servers import BenchError, Connection

from jobforge import calls, db
from jobforge.types.jobs import ClaimedJob, JobRequest, Note, Outcome, OutcomeReport

_AT_ONCE = 5
_OPEN_S = (0.0, 0.1)  # how long a transaction stays open
_LONG_OPEN_S = 0.5  # how long one transaction in twenty stays open
_PAUSE_S = 0.01
_LONGEST_S = 120
_CHANGES = """
select tenant_id, concat_ws(' ', job_id, 'attempt', attempt, outcome) from jobforge.all_attempts
 where tenant_id = any(%(tenants)s)
union all
select tenant_id, concat_ws(' ', job_id, kind, coalesce(data ->> 'n', 'None'))
  from jobforge.job_events
 where tenant_id = any(%(tenants)s) and kind <> 'log'
"""


@dataclass(slots=True)
class StreamLoad:
    """Runs jobs of these tenants. `login` may run jobs; `database` is the superuser's URL."""

    database: str
    login: str
    tenants: list[UUID]
    workers: int
    _left: int = 0
    _lock: Lock = field(default_factory=Lock)

    def run(self, jobs: int) -> None:
        """Enqueue this number of jobs, and run them until all have finished."""
        self._left = jobs
        with db.connect(self.login) as conn:
            for number, tenant_id in enumerate(self.tenants):
                share = len(range(number, jobs, len(self.tenants)))
                requests = [JobRequest("noop", {"n": each}) for each in range(share)]
                db.run(conn, calls.enqueue_jobs(requests, tenant_id=tenant_id))
        with ThreadPoolExecutor(self.workers) as pool:
            for worker in [pool.submit(self._work, number) for number in range(self.workers)]:
                worker.result()

    def write_expected(self, file: Path) -> int:
        """Write the changes that the tables record, by tenant, and return their number."""
        names: dict[str, list[str]] = {str(tenant_id): [] for tenant_id in self.tenants}
        with psycopg.connect(self.database) as conn:
            for tenant_id, name in conn.execute(_CHANGES, {"tenants": self.tenants}):
                names[str(tenant_id)].append(name)
        file.write_text(json.dumps(names))
        return sum(map(len, names.values()))

    def _work(self, number: int) -> None:
        worker_id = uuid4()
        chance = random.Random(number)  # noqa: S311 - the same load in every run
        deadline = time.monotonic() + _LONGEST_S
        with db.connect(self.login) as conn:
            while self._left > 0:
                if time.monotonic() > deadline:
                    raise BenchError(f"{self._left} jobs are left after {_LONGEST_S} s")
                jobs = db.run(conn, calls.claim_jobs(worker_id, {"default": _AT_ONCE}))
                if jobs:
                    self._subtract(self._complete(conn, worker_id, jobs, chance))
                else:
                    time.sleep(_PAUSE_S)

    def _complete(
        self, conn: Connection, worker_id: UUID, jobs: list[ClaimedJob], chance: random.Random
    ) -> int:
        """Write notes and outcomes, each in a transaction that stays open; return the jobs done."""
        reports = [_report(job, chance) for job in jobs]
        canceled = [each for each in reports if each.outcome is Outcome.CANCELED]
        for each in canceled:
            db.run(conn, calls.cancel_job(each.job_id, tenant_id=each.tenant_id))
        for call in (
            calls.note_jobs(worker_id, [note for job in jobs for note in _notes(job)]),
            calls.complete_jobs(worker_id, reports),
        ):
            with conn.transaction():
                db.run(conn, call)
                time.sleep(_draw_open_s(chance))
        return sum(report.outcome is not Outcome.FAILED for report in reports)

    def _subtract(self, jobs: int) -> None:
        with self._lock:
            self._left -= jobs


def _report(job: ClaimedJob, chance: random.Random) -> OutcomeReport:
    report = OutcomeReport(*job.token, Outcome.SUCCEEDED, started_at=job.started_at)
    draw = chance.random()
    if draw < 0.1 and job.attempt == 1:
        error = {"type": "Oops", "message": "once"}
        return report._replace(outcome=Outcome.FAILED, error=error, retry_in_s=0.05)
    return report._replace(outcome=Outcome.CANCELED) if draw > 0.95 else report


def _notes(job: ClaimedJob) -> list[Note]:
    return [
        Note(*job.token, "progress", {"n": 2 * job.attempt}),
        Note(*job.token, "event", {"name": "step", "n": 2 * job.attempt + 1}),
    ]


def _draw_open_s(chance: random.Random) -> float:
    return _LONG_OPEN_S if chance.random() < 0.05 else chance.uniform(*_OPEN_S)
