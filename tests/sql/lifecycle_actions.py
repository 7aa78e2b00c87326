"""A job in a given state, how it got there, and all actions on it.

The names are those of the table in test_lifecycle.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
from cluster import Clock, Connection
from sql.engine import (
    Row,
    attempts_of,
    call,
    call_for_value,
    claim,
    complete,
    enqueue_one,
    heartbeat,
    job_of,
    new_worker,
    reap,
    release,
    state_of,
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A job in a given state, in a separate tenant and queue, with the token of its last claim."""

    conn: Connection
    clock: Clock
    tenant: UUID
    queue: str
    worker: UUID
    job: UUID
    held: Row

    def row(self) -> Row:
        return job_of(self.conn, self.tenant, self.job)

    def state(self) -> str:
        return state_of(self.conn, self.tenant, self.job)

    def attempts(self) -> list[Row]:
        return attempts_of(self.conn, self.tenant, self.job)


def prepare(conn: Connection, clock: Clock, start: str, **options: Any) -> Subject:
    """Return a job of definition `test` in the state that the table calls `start`; it expires in 1
    h.
    """
    tenant, queue, worker = uuid4(), f"q-{uuid4().hex}", new_worker()
    job = enqueue_one(
        conn,
        tenant,
        queue=queue,
        expires_in_s=3600,
        max_attempts=1 if start == "last attempt" else 2,
        delay_s=600 if start == "scheduled" else 0,
        **options,
    )
    held = {"tenant_id": tenant, "job_id": job, "lease": 1}
    if start in {"running", "last attempt", "canceling", "retrying", "succeeded", "dead"}:
        [held] = claim(conn, worker, queue)
    subject = Subject(conn, clock, tenant, queue, worker, job, held)
    _SETTLE.get(start, _leave)(subject)
    return subject


def _leave(_: Subject) -> None:
    pass


def _block(subject: Subject) -> None:
    subject.conn.execute(
        "update jobforge.jobs set state = 'blocked', queued_at = null where id = %s", [subject.job]
    )


def _cancel(subject: Subject) -> None:
    call(subject.conn, "cancel_job", job_id=subject.job, tenant_id=subject.tenant)


def _settle(outcome: str, **fields: Any) -> Callable[[Subject], None]:
    def settle(subject: Subject) -> None:
        complete(subject.conn, subject.worker, [subject.held], outcome, **fields)

    return settle


_SETTLE: dict[str, Callable[[Subject], None]] = {
    "blocked": _block,
    "canceling": _cancel,
    "canceled": _cancel,
    "retrying": _settle("failed", error={"type": "Oops", "message": "no"}),
    "succeeded": _settle("succeeded", result={"n": 1}),
    "dead": _settle("failed", final=True, error={"type": "Oops", "message": "no"}),
}


def act(action: str, subject: Subject) -> str:
    """Perform the action and return its result, both named as in the table."""
    try:
        return ACTIONS[action](subject)
    except psycopg.Error as error:
        return error.sqlstate or str(error)


def _claim_after(**delay: float) -> Callable[[Subject], str]:
    def act(subject: Subject) -> str:
        subject.clock.travel(**delay)
        before = subject.state()
        rows = claim(subject.conn, new_worker(), subject.queue)
        return "-" if not rows and subject.state() == before else subject.state()

    return act


def _heartbeat_jobs(subject: Subject) -> str:
    answer, _ = heartbeat(subject.conn, subject.worker, [subject.held])
    return str(answer["status"])


def _heartbeat_job(subject: Subject) -> str:
    return str(
        call_for_value(
            subject.conn,
            "heartbeat_job",
            tenant_id=subject.tenant,
            job_id=subject.job,
            worker_id=subject.worker,
            lease=subject.held["lease"],
        )
    )


def _complete(outcome: str, **fields: Any) -> Callable[[Subject], str]:
    def act(subject: Subject) -> str:
        [answer] = complete(subject.conn, subject.worker, [subject.held], outcome, **fields)
        return _settled(answer)

    return act


def _complete_job(subject: Subject) -> str:
    state = call_for_value(
        subject.conn,
        "complete_job",
        tenant_id=subject.tenant,
        job_id=subject.job,
        worker_id=subject.worker,
        lease=subject.held["lease"],
    )
    return state or "repeated"


def _release(subject: Subject) -> str:
    [answer] = release(subject.conn, subject.worker, [subject.held])
    return _settled(answer)


def _settled(answer: Row) -> str:
    if answer["status"] == "lost":
        return "lost"
    return answer["state"] or "repeated"


def _reap_after(**delay: float) -> Callable[[Subject], str]:
    def act(subject: Subject) -> str:
        subject.clock.travel(**delay)
        before = subject.row()
        reaped = {(row["job_id"], row["lease"]) for row in reap(subject.conn)}
        if before["state"] == "running" and delay:
            assert (subject.job, before["lease"]) in reaped
        return "-" if subject.row() == before else subject.state()

    return act


def _cancel_job(subject: Subject) -> str:
    return str(
        call_for_value(subject.conn, "cancel_job", job_id=subject.job, tenant_id=subject.tenant)
    )


def _cancel_jobs(subject: Subject) -> str:
    count = call_for_value(subject.conn, "cancel_jobs", filter={}, tenant_id=subject.tenant)
    return subject.state() if count else "-"


def _reschedule(delay: timedelta | None) -> Callable[[Subject], str]:
    def act(subject: Subject) -> str:
        run_at = None if delay is None else subject.clock.now() + delay
        return str(
            call_for_value(
                subject.conn,
                "reschedule_job",
                job_id=subject.job,
                run_at=run_at,
                tenant_id=subject.tenant,
            )
        )

    return act


def _edit_job(subject: Subject) -> str:
    changes = {"payload": {"edited": True}, "priority": 7}
    answer = call_for_value(
        subject.conn, "edit_job", job_id=subject.job, changes=changes, tenant_id=subject.tenant
    )
    row = subject.row()
    assert (row["payload"], row["priority"]) == ({"edited": True}, 7)
    return str(answer)


def _retry_job(subject: Subject) -> str:
    job = call_for_value(subject.conn, "retry_job", job_id=subject.job, tenant_id=subject.tenant)
    if job == subject.job:
        return subject.state()
    made = job_of(subject.conn, subject.tenant, job)
    assert (made["retry_of"], made["state"], made["attempt"]) == (subject.job, "queued", 0)
    return "new job"


def _retry_jobs(subject: Subject) -> str:
    count = call_for_value(subject.conn, "retry_jobs", tenant_id=subject.tenant)
    return subject.state() if count else "-"


ACTIONS: dict[str, Callable[[Subject], str]] = {
    "claim": _claim_after(),
    "claim when due": _claim_after(minutes=20),
    "claim when job expired": _claim_after(hours=2),
    "heartbeat_jobs": _heartbeat_jobs,
    "heartbeat_job": _heartbeat_job,
    "complete succeeded": _complete("succeeded", result={"n": 2}),
    "complete failed": _complete("failed", error={"type": "Oops", "message": "no"}),
    "complete failed permanently": _complete("failed", final=True),
    "complete timed_out": _complete("timed_out"),
    "complete crashed": _complete("crashed", exit_code=-9),
    "complete canceled": _complete("canceled", reason="on its own"),
    "complete snoozed": _complete("snoozed", retry_in_s=60),
    "complete released": _complete("released"),
    "complete (unknown outcome)": _complete("finished"),
    "complete_job": _complete_job,
    "release_jobs": _release,
    "reap_jobs": _reap_after(),
    "reap_jobs when lease expired": _reap_after(minutes=20),
    "reap_jobs when job expired": _reap_after(hours=2),
    "cancel_job": _cancel_job,
    "cancel_jobs": _cancel_jobs,
    "reschedule_job": _reschedule(timedelta(days=1)),
    "reschedule_job to now": _reschedule(None),
    "edit_job": _edit_job,
    "retry_job": _retry_job,
    "retry_jobs": _retry_jobs,
}
