"""The expected behavior of the engine in plain Python: the oracle of test_state_machine.py.

The model knows jobs, leases and time, but no SQL. It cannot predict two things and copies them: the
IDs and leases that the database assigns, and the jitter of a backoff.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

BACKOFF_BASE_S = 8
BACKOFF_CAP_S = 20

WAITING = {"scheduled", "queued"}
FREE = {"released", "snoozed"}


@dataclass(frozen=True, slots=True)
class Token:
    """The proof of a lease, which a worker may present long after it lost the lease."""

    tenant: UUID
    job: UUID
    worker: UUID
    lease: int


@dataclass(slots=True)
class Job:
    tenant: UUID
    id: UUID
    queue: str
    priority: int
    run_at: datetime
    expires_at: datetime | None
    allowance: int
    state: str
    retry_of: UUID | None = None
    attempt: int = 0
    max_attempts: int = 0
    was_started: bool = False
    lease: int = 0
    worker: UUID | None = None
    lease_expires_at: datetime | None = None
    cancel_requested: bool = False
    ended: dict[int, tuple[UUID, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.max_attempts = self.allowance

    @property
    def turn(self) -> tuple[int, datetime, UUID]:
        return (-self.priority, self.run_at, self.id)

    def is_held_by(self, token: Token) -> bool:
        held = (self.tenant, self.id, self.worker, self.lease)
        return self.state == "running" and held == (
            token.tenant,
            token.job,
            token.worker,
            token.lease,
        )

    def has_ended(self, token: Token, outcome: str) -> bool:
        return self.ended.get(token.lease) == (token.worker, outcome)

    def is_expired(self, now: datetime) -> bool:
        """Only jobs that were never started expire."""
        return not self.was_started and self.expires_at is not None and self.expires_at <= now


@dataclass(slots=True)
class Model:
    now: datetime
    jobs: dict[UUID, Job] = field(default_factory=dict)

    def add(self, job: Job) -> None:
        assert job.id not in self.jobs, "an ID was assigned twice"
        self.jobs[job.id] = job

    def claimable(self, queue: str) -> list[Job]:
        """Return jobs in the order within each tenant; the order between tenants is the engine's
        choice.
        """
        self._promote()
        ready = [j for j in self._in("queued") if j.queue == queue and not j.is_expired(self.now)]
        return sorted(ready, key=lambda job: job.turn)

    def start(self, job: Job, worker: UUID, lease: int, lease_s: float) -> Token:
        assert lease > job.lease, "leases increase"
        job.state, job.attempt, job.lease, job.worker = "running", job.attempt + 1, lease, worker
        job.was_started = True
        job.lease_expires_at = self.now + timedelta(seconds=lease_s)
        return Token(job.tenant, job.id, worker, lease)

    def beat(self, token: Token, lease_s: float) -> str:
        job = self.jobs[token.job]
        if not job.is_held_by(token):
            return "lost"
        job.lease_expires_at = self.now + timedelta(seconds=lease_s)
        return "cancel" if job.cancel_requested else "ok"

    def settle(
        self, token: Token, outcome: str, *, final: bool = False, retry_in_s: float | None = None
    ) -> tuple[str, str | None]:
        """Return the answer to a completion: status and state."""
        job = self.jobs[token.job]
        if not job.is_held_by(token):
            return ("ok" if job.has_ended(token, outcome) else "lost"), None
        self._end_lease(job, outcome, final=final, retry_in_s=retry_in_s)
        return "ok", job.state

    def reap(self) -> set[UUID]:
        """Return the jobs whose lease has expired; also cancel waiting jobs that have expired."""
        over = [
            job
            for job in self._in("running")
            if job.lease_expires_at is not None and job.lease_expires_at < self.now
        ]
        for job in over:
            self._end_lease(job, "lease_lost", final=False, retry_in_s=None)
        expired = [job for job in self._in(*WAITING) if job.is_expired(self.now)]
        for job in expired:
            job.state = "canceled"
        return {job.id for job in over}

    def cancel(self, job: Job) -> str:
        """Return the answer or the error's code."""
        if job.state == "succeeded":
            return "JF005"
        if job.state == "running":
            job.cancel_requested = True
            return "canceling"
        job.state = "canceled"
        return "canceled"

    def cancel_all(self, tenant: UUID, state: str) -> int:
        chosen = [
            job
            for job in self._in("scheduled", "queued", "running", "dead")
            if job.tenant == tenant and job.state == state and not job.cancel_requested
        ]
        for job in chosen:
            self.cancel(job)
        return len(chosen)

    def reschedule(self, job: Job, run_at: datetime) -> str:
        if job.state not in WAITING:
            return "JF005"
        job.run_at = max(run_at, self.now)
        job.state = "queued" if job.run_at <= self.now else "scheduled"
        return job.state

    def revive(self, job: Job, attempts: int | None) -> str:
        """Return `retried` for a retry in place, `new job` if the caller must add one, or an error
        code.
        """
        if job.state in {"succeeded", "canceled"}:
            return "new job"
        if job.state == "scheduled" and job.attempt > 0:
            self.reschedule(job, self.now)
            return "retried"
        if job.state != "dead":
            return "JF005"
        job.state, job.run_at, job.expires_at = "queued", self.now, None
        job.max_attempts = job.attempt + (attempts or job.allowance)
        return "retried"

    def revive_all(self, tenant: UUID, attempts: int | None) -> int:
        dead = [job for job in self._in("dead") if job.tenant == tenant]
        for job in dead:
            self.revive(job, attempts)
        return len(dead)

    def adopt(self, job: Job, run_at: datetime, expected_s: float) -> None:
        """Copy the run_at of a backoff, which must lie within its jitter."""
        waited = (run_at - self.now).total_seconds()
        assert expected_s <= waited <= expected_s * 1.1 + 0.001, (waited, expected_s)
        job.run_at = run_at

    def _promote(self) -> None:
        for job in self._in("scheduled"):
            if job.run_at <= self.now:
                job.state = "queued"

    def _end_lease(self, job: Job, outcome: str, *, final: bool, retry_in_s: float | None) -> None:
        assert job.worker is not None
        job.ended[job.lease] = (job.worker, outcome)
        job.state = _next_state(job, outcome, final=final)
        if outcome in FREE:
            job.attempt -= 1
        if job.state == "scheduled" and retry_in_s is not None:
            job.run_at = self.now + timedelta(seconds=retry_in_s)
        job.worker = job.lease_expires_at = None
        job.cancel_requested = False

    def _in(self, *states: str) -> Iterator[Job]:
        return iter([job for job in self.jobs.values() if job.state in states])


def backoff_s(attempt: int) -> float:
    """Return the delay after a failed attempt, before jitter."""
    return float(min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2 ** (attempt - 1)))


def by_tenant(jobs: Iterable[Job]) -> dict[UUID, list[Job]]:
    found: dict[UUID, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.tenant, []).append(job)
    return found


def _next_state(job: Job, outcome: str, *, final: bool) -> str:
    if outcome == "succeeded":
        return "succeeded"
    if outcome == "canceled" or job.cancel_requested:
        return "canceled"
    if outcome in FREE:
        return "queued" if outcome == "released" else "scheduled"
    if final or job.attempt >= job.max_attempts:
        return "dead"
    return "scheduled"
