"""Many sessions call any function at any time, so that calls also overlap in the middle.

The interleaver stops sessions between calls only. Here nothing is stopped and nothing repeats
exactly, though each session follows its seed (JOBFORGE_SEED picks another); the invariants must
always hold.
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
import pytest
from cluster import Clock, Connect, Connection
from sql.cap_usage import CapUsage
from sql.claimer_threads import Fleet
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Json,
    Row,
    call,
    complete,
    definition,
    enqueue,
    heartbeat,
    new_worker,
    reap,
    release,
)
from sql.ledger import Ledger
from sql.uncached_claim import claim

SEED = int(os.environ.get("JOBFORGE_SEED", "20261115"))
SESSIONS = 6
ACTIONS = 2_000 if "JOBFORGE_LONG" in os.environ else 300
CAP = 3

# Errors that are valid answers when another session was first. Any other error is a fault of the
# engine.
EXPECTED = {
    "JF004": "the job is not there, or not any more",
    "JF005": "its state does not allow that, or not any more",
    "JF011": "the key is taken",
}
OUTCOMES = ["succeeded", "failed", "timed_out", "crashed", "canceled", "snoozed", "released"]


@dataclass(slots=True)
class Session:
    """One of the sessions: its current jobs, and former ones whose loss it may not have noticed."""

    conn: Connection
    chance: random.Random
    jobs: list[tuple[UUID, UUID]]
    seen: Counter[str]
    worker: UUID = field(default_factory=new_worker)
    held: list[Row] = field(default_factory=list)
    lost: list[Row] = field(default_factory=list)

    def act(self) -> None:
        [action] = self.chance.choices([*_ACTIONS], [*_ACTIONS.values()])
        try:
            action(self)
            self.seen[action.__name__] += 1
        except psycopg.Error as error:
            if error.sqlstate not in EXPECTED:
                raise
            self.seen[error.sqlstate] += 1

    def any_job(self) -> tuple[UUID, UUID]:
        # Recent jobs are those that other sessions are using.
        return self.chance.choice(self.jobs[-40:])

    def some_held(self) -> list[Row]:
        self.chance.shuffle(self.held)
        taken, self.held = self.held[:3], self.held[3:]
        self.lost = [*self.lost[-20:], *taken]
        return taken


def _enqueue(session: Session) -> None:
    tenant = session.chance.choice([TENANT_A, TENANT_B])
    keyed = {"key": f"key-{session.chance.randrange(20)}"}
    choices: list[dict[str, Json]] = [
        {},
        {"definition": "capped"},
        {"definition": "capped", "priority": 5},
        {**keyed, "key_mode": "active"},
        {**keyed, "on_conflict": "replace"},
        {**keyed, "on_conflict": "raise"},
        {"delay_s": 20},
    ]
    options = session.chance.choice(choices)
    n = 1 if "key" in options else session.chance.randint(1, 4)
    session.jobs.extend((tenant, job) for job in enqueue(session.conn, tenant, n=n, **options))


def _claim(session: Session) -> None:
    session.held += claim(session.conn, session.worker, limit=session.chance.randint(1, 5))


def _settle(session: Session) -> None:
    outcome = session.chance.choice(OUTCOMES)
    jobs = session.some_held()
    _hold_busy(session, jobs, complete(session.conn, session.worker, jobs, outcome, retry_in_s=1))


def _release(session: Session) -> None:
    jobs = session.some_held()
    _hold_busy(session, jobs, release(session.conn, session.worker, jobs))


def _hold_busy(session: Session, jobs: list[Row], answers: list[Row]) -> None:
    """A busy job has not finished: its worker still holds it."""
    busy = {(row["job_id"], row["lease"]) for row in answers if row["status"] == "busy"}
    again = [job for job in jobs if (job["job_id"], job["lease"]) in busy]
    session.held += again
    session.lost = [job for job in session.lost if job not in again]


def _settle_again(session: Session) -> None:
    outcome = session.chance.choice(OUTCOMES)
    for answer in complete(session.conn, session.worker, session.lost, outcome):
        assert answer["state"] is None, f"a lease that had ended moved a job: {answer}"


def _beat(session: Session) -> None:
    answers = heartbeat(session.conn, session.worker, session.held)
    kept = {(row["job_id"], row["lease"]) for row in answers if row["status"] != "lost"}
    session.lost += [job for job in session.held if (job["job_id"], job["lease"]) not in kept]
    session.held = [job for job in session.held if (job["job_id"], job["lease"]) in kept]


def _let_time_pass(session: Session) -> None:
    session.conn.execute(
        "update public.test_clock set offset_interval = offset_interval + interval '20 seconds'"
    )


def _reap(session: Session) -> None:
    reap(session.conn)


def _cancel(session: Session) -> None:
    tenant, job = session.any_job()
    call(session.conn, "cancel_job", job_id=job, tenant_id=tenant)


def _cancel_some(session: Session) -> None:
    call(session.conn, "cancel_jobs", filter={}, limit=5, tenant_id=TENANT_B)


def _retry(session: Session) -> None:
    tenant, job = session.any_job()
    call(session.conn, "retry_job", job_id=job, tenant_id=tenant)


def _retry_all(session: Session) -> None:
    call(session.conn, "retry_jobs", tenant_id=TENANT_A)


def _edit(session: Session) -> None:
    tenant, job = session.any_job()
    call(session.conn, "edit_job", job_id=job, changes={"priority": 9}, tenant_id=tenant)


def _change_limits(session: Session) -> None:
    cap = session.chance.randint(1, CAP)
    definition(session.conn, "capped", max_running=cap, max_attempts=3)


def _pause(session: Session) -> None:
    call(session.conn, "pause_tenant", tenant_id=TENANT_B)
    call(session.conn, "resume_tenant", tenant_id=TENANT_B)


_ACTIONS: dict[Callable[[Session], None], int] = {
    _enqueue: 20,
    _claim: 20,
    _settle: 20,
    _release: 3,
    _settle_again: 8,
    _beat: 6,
    _let_time_pass: 2,
    _reap: 5,
    _cancel: 6,
    _cancel_some: 2,
    _retry: 5,
    _retry_all: 1,
    _edit: 3,
    _change_limits: 2,
    _pause: 1,
}


@pytest.mark.timeout(600)
def test_concurrent_random_calls_keep_the_invariants_and_all_jobs_finish(
    conn: Connection, connect: Connect, clock: Clock
) -> None:
    definition(conn, max_attempts=3)
    definition(conn, "capped", max_running=CAP, max_attempts=3)
    ledger, cap_usage = Ledger(conn), CapUsage(conn)
    jobs: list[tuple[UUID, UUID]] = [(TENANT_A, job) for job in enqueue(conn, n=20)]
    seen: Counter[str] = Counter()
    sessions = [
        Session(connect(), random.Random(f"{SEED}/{number}"), jobs, seen)  # noqa: S311 - a seed
        for number in range(SESSIONS)
    ]
    turns = Counter[int]()

    def turn(number: int, _: Connection, __: UUID) -> bool:
        sessions[number].act()
        turns[number] += 1
        return turns[number] < ACTIONS

    Fleet(connect, SESSIONS).run(turn)

    ledger.check()
    assert cap_usage.most_of("definition", "capped") <= CAP
    # A storm in which no session was late or lost a race shows nothing.
    assert all(seen[action.__name__] for action in _ACTIONS), seen
    assert seen["JF005"], seen
    _drain(conn, clock)
    ledger.check()


def _drain(conn: Connection, clock: Clock) -> None:
    """Finish all remaining jobs within a few rounds of lease and backoff."""
    worker = new_worker()
    for _ in range(10):
        clock.travel(hours=2)
        reap(conn)
        while held := claim(conn, worker, limit=100):
            complete(conn, worker, held)
    left = conn.execute("select state from jobforge.jobs where state <> 'dead'").fetchall()
    assert left == []
