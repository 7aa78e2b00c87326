"""StreamLoad: jobs of several tenants run, and what they leave is committed late and out of order.

Workers are threads that call the engine as a worker does. One job in ten fails once, one in twenty
is canceled while it runs, each notes its progress and an event. Every transaction that writes
history is held open for a while of its own, so that younger ones are committed before it.
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
_HELD_S = (0.0, 0.1)
_LONG_HELD_S = 0.5  # one in twenty
_PAUSE_S = 0.01
_LONGEST_S = 120
_HAPPENED = """
select tenant_id, concat_ws(' ', job_id, 'attempt', attempt, outcome) from jobforge.all_attempts
 where tenant_id = any(%(tenants)s)
union all
select tenant_id, concat_ws(' ', job_id, kind, coalesce(data ->> 'n', 'None'))
  from jobforge.job_events
 where tenant_id = any(%(tenants)s) and kind <> 'log'
"""


@dataclass(slots=True)
class StreamLoad:
    """Runs jobs of these tenants; `login` may work, `database` may read everything."""

    database: str
    login: str
    tenants: list[UUID]
    workers: int
    _left: int = 0
    _lock: Lock = field(default_factory=Lock)

    def run(self, jobs: int) -> None:
        """Makes so many jobs, and runs them to their end."""
        self._left = jobs
        with db.connect(self.login) as conn:
            for number, tenant_id in enumerate(self.tenants):
                mine = len(range(number, jobs, len(self.tenants)))
                made = [JobRequest("noop", {"n": each}) for each in range(mine)]
                db.run(conn, calls.enqueue_jobs(made, tenant_id=tenant_id))
        with ThreadPoolExecutor(self.workers) as pool:
            for end in [pool.submit(self._work, number) for number in range(self.workers)]:
                end.result()

    def happened(self, file: Path) -> int:
        """Writes what the tables say happened, by tenant; answers how much it is."""
        names: dict[str, list[str]] = {str(tenant_id): [] for tenant_id in self.tenants}
        with psycopg.connect(self.database) as conn:
            for tenant_id, name in conn.execute(_HAPPENED, {"tenants": self.tenants}):
                names[str(tenant_id)].append(name)
        file.write_text(json.dumps(names))
        return sum(map(len, names.values()))

    def _work(self, number: int) -> None:
        worker_id = uuid4()
        chance = random.Random(number)  # noqa: S311 - the same bustle every time
        deadline = time.monotonic() + _LONGEST_S
        with db.connect(self.login) as conn:
            while self._left > 0:
                if time.monotonic() > deadline:
                    raise BenchError(f"{self._left} jobs are left after {_LONGEST_S} s")
                jobs = db.run(conn, calls.claim_jobs(worker_id, {"default": _AT_ONCE}))
                if jobs:
                    self._finish(self._end(conn, worker_id, jobs, chance))
                else:
                    time.sleep(_PAUSE_S)

    def _end(
        self, conn: Connection, worker_id: UUID, jobs: list[ClaimedJob], chance: random.Random
    ) -> int:
        """Notes and outcomes, each in a transaction that stays open; answers how many are done."""
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
                time.sleep(_hold_s(chance))
        return sum(report.outcome is not Outcome.FAILED for report in reports)

    def _finish(self, jobs: int) -> None:
        with self._lock:
            self._left -= jobs


def _report(job: ClaimedJob, chance: random.Random) -> OutcomeReport:
    report = OutcomeReport(*job.token, Outcome.SUCCEEDED, started_at=job.started_at)
    drawn = chance.random()
    if drawn < 0.1 and job.attempt == 1:
        error = {"type": "Oops", "message": "once"}
        return report._replace(outcome=Outcome.FAILED, error=error, retry_in_s=0.05)
    return report._replace(outcome=Outcome.CANCELED) if drawn > 0.95 else report


def _notes(job: ClaimedJob) -> list[Note]:
    return [
        Note(*job.token, "progress", {"n": 2 * job.attempt}),
        Note(*job.token, "event", {"name": "step", "n": 2 * job.attempt + 1}),
    ]


def _hold_s(chance: random.Random) -> float:
    return _LONG_HELD_S if chance.random() < 0.05 else chance.uniform(*_HELD_S)
