"""Drain a test's jobs: claim, run in this process, complete, until none is left.

The engine decides which job runs next, as in production. If only scheduled jobs are left, the
test's clock moves forward to the next one.
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
from jobforge.scheduler.dispatch import Dispatcher
from jobforge.sdk.definition import Definition
from jobforge.sdk.outcome_exceptions import AttemptSuspended, Cancel, Dead, Retry, Snooze
from jobforge.sdk.verdict import Verdict
from jobforge.testing.attempt import AttemptRunner
from jobforge.testing.database import KitDatabase
from jobforge.types.jobs import ClaimedJob, Outcome, OutcomeReport, SettleStatus, State
from jobforge.types.jsonb import encode
from jobforge.worker.payload_downloads import download_documents, needs_download

T = TypeVar("T")

# Long, because handlers send no heartbeats and may move the clock.
_LEASE_S = 3600

_FAILURES = {Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CRASHED}
_WAITING = {State.SCHEDULED, State.QUEUED}

_CLOCK_STEP = timedelta(milliseconds=1)

# More attempts indicate an endless loop.
MAX_ATTEMPTS = 10_000
_MAX_SCHEDULE_ROUNDS = 100  # of up to 1,000 due schedules each


@dataclass(frozen=True, slots=True)
class Ran:
    """One attempt of a drain: the handler's exception, and the job's state after the attempt."""

    job: ClaimedJob
    outcome: Outcome
    state: State | None
    result: Json = None
    exception: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Drained:
    """The attempts of a drain, counted by the state of their job afterwards.

    `failed` counts attempts after which the job waits for a retry. Hook jobs are not counted; they
    are in `hooks`.
    """

    jobs: list[Ran] = field(default_factory=list)
    hooks: list[Ran] = field(default_factory=list)

    @property
    def succeeded(self) -> int:
        """Number of attempts after which the job is succeeded."""
        return self._count(State.SUCCEEDED)

    @property
    def failed(self) -> int:
        """Number of failed attempts after which the job waits for a retry."""
        return sum(ran.outcome in _FAILURES and ran.state in _WAITING for ran in self.jobs)

    @property
    def dead(self) -> int:
        """Number of attempts after which the job is dead."""
        return self._count(State.DEAD)

    @property
    def canceled(self) -> int:
        """Number of attempts after which the job is canceled."""
        return self._count(State.CANCELED)

    @property
    def snoozed(self) -> int:
        """Number of attempts that the handler snoozed."""
        return sum(ran.outcome is Outcome.SNOOZED for ran in self.jobs)

    def _count(self, state: State) -> int:
        return sum(ran.state is state for ran in self.jobs)


class Drainer:
    """A worker with one slot, for one drain."""

    def __init__(
        self,
        database: KitDatabase,
        conn: db.Connection,
        runner: AttemptRunner,
        definitions: Mapping[str, Definition[..., Any]],
        artifacts: Callable[[], Artifacts],
    ) -> None:
        self._database = database
        self._conn = conn
        self._runner = runner
        self._definitions = definitions
        self._artifacts = artifacts
        self._served_definitions = [
            name for each in definitions.values() for name in each.served_versions
        ]
        self._worker_id = uuid4()
        self._dispatcher = Dispatcher()

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
            if limit is None:
                _check_attempt_limit(drained)
        return drained

    def _fire_schedules(self) -> None:
        """Plan new schedules and enqueue the jobs of due schedules."""
        for _ in range(_MAX_SCHEDULE_ROUNDS):
            due = self._run(calls.due_schedules())
            if not due.triggers:
                return
            self._run(calls.record_firings(list(firing.iter_plans(due))))

    def _dispatch_events(self) -> bool:
        """Enqueue the jobs of event triggers; return whether there were events to dispatch."""
        pending = self._run(calls.pending_events())
        if pending.events:
            self._run(calls.record_deliveries(list(self._dispatcher.iter_reactions(pending))))
        return bool(pending.events)

    def _claim_next(self, *, with_scheduled: bool) -> ClaimedJob | None:
        job = self._claim()
        while job is None and self._dispatch_events():
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
        """Return when a rate limit next admits a job, or None if no rate limit delays one."""
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
        full_job = job
        if needs_download(job, definition):
            full_job = download_documents(self._artifacts(), job, definition)
        attempt = self._runner.run_attempt(definition, full_job, self._worker_id)
        if attempt.notes:
            self._run(calls.note_jobs(self._worker_id, attempt.notes))
        report = self._store_large_result(job, _to_report(job, attempt.verdict))
        settled = self._run(calls.complete_jobs(self._worker_id, [report]))[0]
        if settled.status is SettleStatus.BUSY:
            # An open transaction of the test locks the job: complete_job waits for the lock.
            self._run(calls.complete_job(self._worker_id, report))
        state = settled.state or self._database.state_of(job.job_id)
        if state is State.SUCCEEDED:
            # Includes a job that its handler completed: the report then came too late.
            return Ran(job, Outcome.SUCCEEDED, state, attempt.verdict.result)
        return Ran(job, attempt.verdict.outcome, state, exception=attempt.exception)

    def _store_large_result(self, job: ClaimedJob, report: OutcomeReport) -> OutcomeReport:
        """Move a result that is too large for a row to the artifact store, as a worker does."""
        try:
            result = encode(report.result, "result")
        except Invalid:  # the engine rejects the result
            return report
        if fits(result, RESULT_LIMIT):
            return report
        key = new_key(job.tenant_id, job.job_id, f"result-{job.lease}.json")
        marker = self._artifacts().put(key, result.encode())
        artifact_ref = None if is_marked(job.payload_json) else marker.ref
        return report._replace(result=marker.to_json(), artifact_ref=artifact_ref)

    def _run(self, call: Call[T]) -> T:
        return db.run(self._conn, call)


def _to_report(job: ClaimedJob, verdict: Verdict) -> OutcomeReport:
    fields_of_verdict = {field.name: getattr(verdict, field.name) for field in fields(verdict)}
    return OutcomeReport(*job.token, started_at=job.started_at, **fields_of_verdict)


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
        f"{MAX_ATTEMPTS} attempts have run, and jobs are left; the last ones were of {last}. "
        "Check for jobs that snooze or enqueue themselves endlessly, or use drain(limit=…)"
    )
