"""A Hypothesis state machine that calls the engine at random and compares it with the model.

Time moves only in one of the steps, so the model knows it to the microsecond. Tokens of ended
leases are kept and presented again on purpose.
"""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from cluster import Connection
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from psycopg.types.json import Jsonb
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    call,
    call_for_value,
    claim,
    enqueue,
    reap,
    succeed,
)
from sql.job_model import (
    WAITING,
    Job,
    Model,
    Token,
    backoff_s,
    by_tenant,
)
from sql.ledger import Ledger
from sql.state_machine_steps import CALLS, QUEUES, WORKERS, Call

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
LEASE_S = 30


class Engine(RuleBasedStateMachine):
    """Calls functions in the database that `conn` is connected to.

    Steps draw what they prefer to act on (a state, a current token or any token) and take something
    else if there is none, so that rare states are visited as often as common ones.
    """

    conn: Connection
    ledger: Ledger
    seen: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.tenants = [TENANT_A, TENANT_B]
        self.model = Model(EPOCH)
        self.tokens: list[Token] = []
        _set_time(self.conn, EPOCH)
        self._forget_the_last_run()

    @initialize(max_attempts=st.integers(1, 3))
    def begin(self, max_attempts: int) -> None:
        for tenant in self.tenants:
            self._enqueue(tenant, n=3, max_attempts=max_attempts)

    @rule(call=CALLS)
    def step(self, call: Call) -> None:
        name, arguments = call
        getattr(self, name)(**arguments)

    def enqueue(self, tenant: UUID, n: int, expires_in_s: float | None, **options: Any) -> None:
        if expires_in_s is not None:
            options["expires_in_s"] = expires_in_s
        self._enqueue(tenant, n, **options)

    def claim(self, worker: UUID, queue: str, limit: int) -> None:
        self._reset_session_memory()
        claimable = self.model.claimable(queue)
        rows = claim(self.conn, worker, queue, limit, lease_s=LEASE_S)
        assert len(rows) == min(limit, len(claimable)), "a claim takes all available jobs"
        taken = by_tenant(self.model.jobs[row["job_id"]] for row in rows)
        for tenant, jobs in by_tenant(claimable).items():
            best = jobs[: len(taken.get(tenant, []))]
            assert {j.id for j in taken.get(tenant, [])} == {j.id for j in best}
        self._adopt_expired()
        self.tokens += [self._started(row, worker) for row in rows]

    def heartbeat(self, picks: list[int], *, current: bool, own: bool) -> None:
        held = self._pick_tokens(picks, current=current)
        if not held:
            return
        worker = held[0].worker if own else WORKERS[0]
        jobs = Jsonb([_as_json(token) for token in held])
        rows = call(self.conn, "heartbeat_jobs", worker_id=worker, jobs=jobs, lease_s=LEASE_S)
        answers = {(row["job_id"], row["lease"]): row["status"] for row in rows}
        for token in held:
            presented = replace(token, worker=worker)
            expected = self.model.beat(presented, LEASE_S)
            assert answers[token.job, token.lease] == expected
            self.seen[f"heartbeat answers {expected}"] += 1

    def complete(
        self,
        picks: list[int],
        outcomes: list[str],
        *,
        current: bool,
        final: bool,
        retry_in_s: float | None,
    ) -> None:
        """Send one batch for each worker, with stale tokens among the current ones."""
        held = self._pick_tokens(picks, current=current)
        for worker in WORKERS:
            given = [
                (token, outcome)
                for token, outcome in zip(held, outcomes, strict=False)
                if token.worker == worker
            ]
            self._complete(worker, given, final=final, retry_in_s=retry_in_s)

    def succeed(self, picks: list[int], *, current: bool) -> None:
        """Call succeed_jobs, which returns the jobs that it did not settle."""
        for worker in WORKERS:
            held = {
                token
                for token in self._pick_tokens(picks, current=current)
                if token.worker == worker
            }
            if not held:
                continue
            left = succeed(self.conn, worker, [_as_row(token) for token in held])
            unsettled = {(row["job_id"], row["lease"]) for row in left}
            for token in held:
                answer = self.model.settle(token, "succeeded", final=False, retry_in_s=None)
                is_settled = answer == ("ok", "succeeded")
                assert is_settled == ((token.job, token.lease) not in unsettled)
                self.seen["succeeded" if is_settled else "not settled as succeeded"] += 1

    def complete_as_another(self, pick: int, worker: UUID, outcome: str) -> None:
        for token in self._pick_tokens([pick], current=True):
            stolen = replace(token, worker=worker)
            self._complete(worker, [(stolen, outcome)], final=False, retry_in_s=None)

    def reap(self) -> None:
        rows = reap(self.conn)
        reaped = self.model.reap()
        assert {row["job_id"] for row in rows} >= reaped
        for job in reaped:
            self._adopt_backoff(self.model.jobs[job])
        self.seen["reaped"] += len(reaped)

    def cancel(self, pick: int, wanted: str) -> None:
        job = self._pick_job(pick, wanted)
        answer = self._answer("cancel_job", job_id=job.id, tenant_id=job.tenant)
        assert answer == self.model.cancel(job)
        self.seen[f"cancel answers {answer}"] += 1

    def cancel_by_filter(self, tenant: UUID, state: str) -> None:
        answer = self._answer("cancel_jobs", filter={"state": state}, tenant_id=tenant)
        assert answer == self.model.cancel_all(tenant, state)

    def reschedule(self, pick: int, wanted: str, delay_s: float) -> None:
        job = self._pick_job(pick, wanted)
        run_at = self.model.now + timedelta(seconds=delay_s)
        answer = self._answer("reschedule_job", job_id=job.id, run_at=run_at, tenant_id=job.tenant)
        assert answer == self.model.reschedule(job, run_at)

    def retry(self, pick: int, wanted: str, attempts: int | None) -> None:
        job = self._pick_job(pick, wanted)
        answer = self._answer("retry_job", job_id=job.id, attempts=attempts, tenant_id=job.tenant)
        expected = self.model.revive(job, attempts)
        self.seen[f"retry: {expected}"] += 1
        if expected == "new job":
            self.model.add(_copy_of(job, answer, attempts, self.model.now))
        else:
            assert answer == (job.id if expected == "retried" else expected)

    def redrive(self, tenant: UUID, attempts: int | None) -> None:
        answer = self._answer("retry_jobs", attempts=attempts, tenant_id=tenant)
        assert answer == self.model.revive_all(tenant, attempts)
        self.seen["redriven"] += answer

    def travel(self, seconds: float) -> None:
        """Move the clock as if other workers had reaped all the time, so that it is not an
        outage."""
        self.model.now += timedelta(seconds=seconds)
        _set_time(self.conn, self.model.now)
        self.conn.execute(
            "update jobforge.reaper set reaped_at = %s where reaped_at is not null",
            [self.model.now],
        )

    @invariant()
    def the_database_agrees(self) -> None:
        self.seen["steps"] += 1
        rows = self.conn.execute(
            "select * from jobforge.all_jobs where tenant_id = any(%s)", [self.tenants]
        ).fetchall()
        stored = {row["id"]: _in_database(row) for row in rows}
        assert len(stored) == len(rows), "a job is in one place"
        assert stored == {job.id: _in_model(job) for job in self.model.jobs.values()}
        attempts = self.conn.execute(
            "select job_id, lease, worker_id, outcome from jobforge.all_attempts "
            "where tenant_id = any(%s)",
            [self.tenants],
        ).fetchall()
        assert sorted(tuple(row.values()) for row in attempts) == sorted(
            (job.id, lease, *ended)
            for job in self.model.jobs.values()
            for lease, ended in job.ended.items()
        )

    def teardown(self) -> None:
        self.ledger.check()

    def _pick_job(self, pick: int, wanted: str) -> Job:
        jobs = list(self.model.jobs.values())
        suitable = [job for job in jobs if job.state == wanted] or jobs
        return suitable[pick % len(suitable)]

    def _pick_tokens(self, picks: list[int], *, current: bool) -> list[Token]:
        held = [token for token in self.tokens if self.model.jobs[token.job].is_held_by(token)]
        suitable = held if current and held else self.tokens
        chosen = [suitable[pick % len(suitable)] for pick in picks if suitable]
        return list(dict.fromkeys(chosen))

    def _forget_the_last_run(self) -> None:
        for table in ["jobs", "heartbeats", "finished_jobs", "attempts", "job_events", "audit_log"]:
            self.conn.execute(f"delete from jobforge.{table}".encode())
        self.ledger.clear()

    def _reset_session_memory(self) -> None:
        """Reset the random first tenant and the remembered slow walks: runs must be
        reproducible."""
        turns = json.dumps({queue: {"tenant": str(TENANT_A)} for queue in QUEUES})
        self.conn.execute("select set_config('jobforge.cursors', %s, false)", [turns])

    def _enqueue(self, tenant: UUID, n: int, **options: Any) -> list[UUID]:
        given = {"queue": QUEUES[0], "priority": 0, "delay_s": 0, **options}
        ids = enqueue(self.conn, tenant, n, **given)
        for job in ids:
            self.model.add(
                Job(
                    tenant=tenant,
                    id=job,
                    queue=given["queue"],
                    priority=given["priority"],
                    run_at=self.model.now + timedelta(seconds=given["delay_s"]),
                    expires_at=_after(self.model.now, given.get("expires_in_s")),
                    allowance=given["max_attempts"],
                    state="scheduled" if given["delay_s"] else "queued",
                )
            )
        return ids

    def _started(self, row: Row, worker: UUID) -> Token:
        job = self.model.jobs[row["job_id"]]
        token = self.model.start(job, worker, row["lease"], LEASE_S)
        assert (row["attempt"], row["max_attempts"]) == (job.attempt, job.max_attempts)
        assert row["lease_expires_at"] == job.lease_expires_at
        return token

    def _complete(
        self,
        worker: UUID,
        given: list[tuple[Token, str]],
        *,
        final: bool,
        retry_in_s: float | None,
    ) -> None:
        outcomes = [
            _as_json(token)
            | {"outcome": outcome, "final": final, "retry_in_s": retry_in_s, "error": {"type": "E"}}
            for token, outcome in given
        ]
        rows = call(
            self.conn,
            "complete_jobs",
            worker_id=worker,
            outcomes=Jsonb(outcomes),
        )
        answers = {(row["job_id"], row["lease"]): (row["status"], row["state"]) for row in rows}
        for token, outcome in given:
            attempt = self.model.jobs[token.job].attempt
            answer = self.model.settle(token, outcome, final=final, retry_in_s=retry_in_s)
            assert answers[token.job, token.lease] == answer
            self.seen[f"complete answers {answer[0]} {answer[1]}"] += 1
            if answer[1] == "scheduled" and retry_in_s is None:
                self._adopt_backoff(self.model.jobs[token.job], attempt)

    def _adopt_backoff(self, job: Job, attempt: int | None = None) -> None:
        if job.state == "scheduled":
            self.model.adopt(job, self._row(job)["run_at"], backoff_s(attempt or job.attempt))

    def _adopt_expired(self) -> None:
        """Copy the cancellations of expired jobs: whether a claim cancels more than one is
        unspecified.
        """
        for job in self.model.jobs.values():
            if job.state in WAITING and job.is_expired(self.model.now):
                stored = self._row(job)["state"]
                assert stored in {job.state, "canceled"}
                job.state = stored
                self.seen[f"expired at a claim: {stored}"] += 1

    def _row(self, job: Job) -> Row:
        [row] = self.conn.execute(
            "select * from jobforge.all_jobs where tenant_id = %s and id = %s", [job.tenant, job.id]
        ).fetchall()
        return row

    def _answer(self, function: str, **arguments: Any) -> Any:
        """Return the function's result, or the code with which it refuses."""
        try:
            return call_for_value(self.conn, function, **arguments)
        except psycopg.Error as error:
            return error.sqlstate


def stop_time(conn: Connection) -> None:
    """Stop the database's clock; from now on only the state machine moves it."""
    conn.execute(
        """
        create table public.frozen_time as select now() as at;
        create or replace function jobforge_private.now() returns timestamptz language sql volatile
        as $$ select t.at from public.frozen_time as t $$;
        grant select on public.frozen_time to public;
        """
    )


def _copy_of(job: Job, made: UUID, attempts: int | None, now: datetime) -> Job:
    return Job(
        tenant=job.tenant,
        id=made,
        queue=job.queue,
        priority=job.priority,
        run_at=now,
        expires_at=None,
        allowance=attempts or job.allowance,
        state="queued",
        retry_of=job.id,
    )


def _set_time(conn: Connection, at: datetime) -> None:
    conn.execute("update public.frozen_time set at = %s", [at])


def _after(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


def _as_json(token: Token) -> dict[str, Any]:
    return {"tenant_id": str(token.tenant), "job_id": str(token.job), "lease": token.lease}


def _as_row(token: Token) -> Row:
    return {"tenant_id": token.tenant, "job_id": token.job, "lease": token.lease}


def _in_database(row: Row) -> dict[str, Any]:
    running = row["state"] == "running"
    return {
        "tenant": row["tenant_id"],
        "state": row["state"],
        "attempt": row["attempt"],
        "max_attempts": row["max_attempts"],
        "lease": row["lease"],
        "run_at": row["run_at"] if row["state"] in WAITING else None,
        "expires_at": row["expires_at"],
        "retry_of": row["retry_of"],
        "worker": row["worker_id"] if running else None,
        "lease_expires_at": row["lease_expires_at"],
        "cancel_requested": running and row["cancel_requested_at"] is not None,
    }


def _in_model(job: Job) -> dict[str, Any]:
    return {
        "tenant": job.tenant,
        "state": job.state,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "lease": job.lease,
        "run_at": job.run_at if job.state in WAITING else None,
        "expires_at": job.expires_at,
        "retry_of": job.retry_of,
        "worker": job.worker,
        "lease_expires_at": job.lease_expires_at,
        "cancel_requested": job.cancel_requested,
    }
