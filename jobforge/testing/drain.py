"""Letting the jobs of a test run until none is left: claim, run in this process, complete.

The engine decides what runs when, as in production. Where a job waits for its time, the test's
clock is moved on to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

from jobforge import calls, db
from jobforge.artifacts import Artifacts
from jobforge.artifacts.artifact_reference import is_marked
from jobforge.artifacts.keys import new_key
from jobforge.calls import Call
from jobforge.errors import Invalid, Json
from jobforge.payloads.size import RESULT_LIMIT, fits
from jobforge.scheduler import firing
from jobforge.sdk.definition import Definition
from jobforge.sdk.outcome_exceptions import AttemptSuspended, Cancel, Dead, Retry, Snooze
from jobforge.sdk.verdict import Verdict
from jobforge.testing.attempt import AttemptRunner
from jobforge.testing.database import KitDatabase
from jobforge.types.jobs import ClaimedJob, Outcome, OutcomeReport, SettleStatus, State
from jobforge.types.jsonb import encode
from jobforge.worker.payload_downloads import download_documents, needs_download

T = TypeVar("T")

# Handlers here send no heartbeat, and may travel in time.
_LEASE_S = 3600

_FAILURES = {Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CRASHED}
_WAITING = {State.SCHEDULED, State.QUEUED}

_CLOCK_STEP = timedelta(milliseconds=1)

# Past this something goes round in a circle.
MAX_ATTEMPTS = 10_000
_MAX_SCHEDULE_ROUNDS = 100  # at schedules, of which each finds a thousand


@dataclass(frozen=True, slots=True)
class Ran:
    """One attempt of a drain. `exception` is what the handler raised, `state` what followed."""

    job: ClaimedJob
    outcome: Outcome
    state: State | None
    result: Json = None
    exception: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain did. Each attempt is counted once, by what became of its job.

    `failed` are attempts after which the job waited for another one. Jobs that ran hooks are not
    counted; they are in `hooks`.
    """

    jobs: list[Ran] = field(default_factory=list)
    hooks: list[Ran] = field(default_factory=list)

    @property
    def succeeded(self) -> int:
        return self._count(State.SUCCEEDED)

    @property
    def failed(self) -> int:
        return sum(ran.outcome in _FAILURES and ran.state in _WAITING for ran in self.jobs)

    @property
    def dead(self) -> int:
        return self._count(State.DEAD)

    @property
    def canceled(self) -> int:
        return self._count(State.CANCELED)

    @property
    def snoozed(self) -> int:
        return sum(ran.outcome is Outcome.SNOOZED for ran in self.jobs)

    def _count(self, state: State) -> int:
        return sum(ran.state is state for ran in self.jobs)


class Drainer:
    """A worker of its own for one drain, with one slot."""

    def __init__(
        self,
        database: KitDatabase,
        conn: db.Connection,
        stage: AttemptRunner,
        definitions: Mapping[str, Definition[..., Any]],
        artifacts: Callable[[], Artifacts],
    ) -> None:
        self._database = database
        self._conn = conn
        self._runner = stage
        self._definitions = definitions
        self._artifacts = artifacts
        self._served_definitions = [
            name for each in definitions.values() for name in each.served_versions
        ]
        self._worker_id = uuid4()

    def run(self, *, limit: int | None, with_scheduled: bool, raise_errors: bool) -> Drained:
        drained = Drained()
        self._fire_schedules()
        while limit is None or len(drained.jobs) < limit:
            job = self._claim_next(with_scheduled=with_scheduled)
            if job is None:
                break
            ran = self._run_attempt(job)
            (drained.hooks if _is_hook(job) else drained.jobs).append(ran)
            if raise_errors and ran.exception is not None and _is_error(ran.exception):
                raise ran.exception
            _check_attempt_limit(drained)
        return drained

    def _fire_schedules(self) -> None:
        """Schedules that are due make their jobs; those that are new are planned first."""
        for _ in range(_MAX_SCHEDULE_ROUNDS):
            due = self._run(calls.due_schedules())
            if not due.triggers:
                return
            self._run(calls.record_firings(list(firing.iter_plans(due))))

    def _claim_next(self, *, with_scheduled: bool) -> ClaimedJob | None:
        job = self._claim()
        while job is None and with_scheduled:
            due = (
                self._database.next_due(self._served_definitions) or self._find_next_rate_limited()
            )
            if due is None:
                return None
            self._database.travel(max(due - self._database.now(), timedelta()) + _CLOCK_STEP)
            job = self._claim()
        return job

    def _claim(self) -> ClaimedJob | None:
        self._run(calls.reap_jobs())
        for queue in self._database.waiting_queues():
            claim = calls.claim_jobs(
                self._worker_id, {queue: 1}, definitions=self._served_definitions, lease_s=_LEASE_S
            )
            for job in self._run(claim):
                return job
        return None

    def _find_next_rate_limited(self) -> datetime | None:
        """When a rate limit lets the next job through, if that is what jobs are waiting for."""
        times = [
            self._find_rate_limit_end(*job)
            for job in self._database.queued_jobs(self._served_definitions)
        ]
        return min((time for time in times if time is not None), default=None)

    def _find_rate_limit_end(self, tenant_id: UUID, job_id: UUID) -> datetime | None:
        reasons = self._run(calls.explain_job(job_id).for_tenant(tenant_id))
        times = [reason.detail["next_at"] for reason in reasons if "next_at" in reason.detail]
        return max(map(datetime.fromisoformat, times), default=None)

    def _run_attempt(self, job: ClaimedJob) -> Ran:
        definition = self._definitions[job.definition]
        whole = job
        if needs_download(job, definition):
            whole = download_documents(self._artifacts(), job, definition)
        played = self._runner.run_attempt(definition, whole, self._worker_id)
        if played.notes:
            self._run(calls.note_jobs(self._worker_id, played.notes))
        report = self._store_large_result(job, _to_report(job, played.verdict))
        settled = self._run(calls.complete_jobs(self._worker_id, [report]))[0]
        if settled.status is SettleStatus.BUSY:
            # The test has a transaction open that holds the job: wait for it, as for any lock.
            self._run(calls.complete_job(self._worker_id, report))
        state = settled.state or self._database.state_of(job.job_id)
        if state is State.SUCCEEDED:
            # Also where the handler has completed its job itself: then the report came too late.
            return Ran(job, Outcome.SUCCEEDED, state, played.verdict.result)
        return Ran(job, played.verdict.outcome, state, exception=played.exception)

    def _store_large_result(self, job: ClaimedJob, report: OutcomeReport) -> OutcomeReport:
        """With a result that is too large for a row in the store, as a worker puts it there."""
        try:
            result = encode(report.result, "result")
        except Invalid:  # the engine is told so
            return report
        if fits(result, RESULT_LIMIT):
            return report
        key = new_key(job.tenant_id, job.job_id, f"result-{job.lease}.json")
        marker = self._artifacts().put(key, result.encode())
        named = None if is_marked(job.payload_json) else marker.ref
        return report._replace(result=marker.to_json(), artifact_ref=named)

    def _run(self, call: Call[T]) -> T:
        return db.run(self._conn, call)


def _to_report(job: ClaimedJob, verdict: Verdict) -> OutcomeReport:
    said = {field.name: getattr(verdict, field.name) for field in fields(verdict)}
    return OutcomeReport(*job.token, started_at=job.started_at, **said)


def _is_hook(job: ClaimedJob) -> bool:
    return job.source == "system" and job.definition.endswith(":hooks")


def _is_error(exception: BaseException | None) -> bool:
    return exception is not None and not isinstance(
        exception, Retry | Snooze | Cancel | Dead | AttemptSuspended
    )


def _check_attempt_limit(drained: Drained) -> None:
    if len(drained.jobs) + len(drained.hooks) < MAX_ATTEMPTS:
        return
    last = ", ".join(sorted({ran.job.definition for ran in drained.jobs[-100:]}))
    raise AssertionError(
        f"{MAX_ATTEMPTS} attempts have run and jobs are left; of late these ran: {last}. "
        "A job that snoozes or enqueues itself without end? drain(limit=…) stops earlier"
    )
