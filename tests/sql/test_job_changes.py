"""Manual changes of jobs: edit, reschedule, cancel and retry, one by one and by filter.

test_lifecycle.py lists the states in which each is possible; these tests check the exact effects.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from cluster import Clock, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    attempts_of,
    call,
    call_for_value,
    claim,
    complete,
    count,
    definition,
    enqueue,
    enqueue_one,
    job_of,
    new_worker,
    refused,
    state_of,
)
from sql.lifecycle_actions import Subject, prepare

ERROR = {"type": "Oops", "message": "no"}


def create_dead(conn: Connection, n: int = 1, tenant: UUID = TENANT_A, **error: Any) -> list[UUID]:
    """Create n jobs that failed permanently on their first attempt, oldest first."""
    jobs = enqueue(conn, tenant, n, queue="dying")
    worker = new_worker()
    rows = claim(conn, worker, "dying", n, tenants=[tenant])
    complete(conn, worker, rows, "failed", final=True, error=ERROR | error)
    return jobs


def edit(conn: Connection, job: UUID, **changes: Any) -> str:
    return str(call_for_value(conn, "edit_job", job_id=job, changes=changes, tenant_id=TENANT_A))


def retry(conn: Connection, job: UUID, tenant: UUID = TENANT_A, **arguments: Any) -> UUID:
    made = call_for_value(conn, "retry_job", job_id=job, tenant_id=tenant, **arguments)
    assert isinstance(made, UUID)
    return made


# Edit and reschedule.


def test_an_edit_changes_what_it_names_and_nothing_else(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn, payload={"a": 1}, priority=3, tags=["x"])
    before = job_of(conn, TENANT_A, job)
    assert edit(conn, job, priority=9) == "queued"
    assert job_of(conn, TENANT_A, job) == before | {"priority": 9}
    assert edit(conn, job, payload={"b": 2}, queue="other") == "queued"
    changed = {"priority": 9, "payload": {"b": 2}, "queue": "other"}
    assert job_of(conn, TENANT_A, job) == before | changed
    assert [row["job_id"] for row in claim(conn, new_worker(), "other")] == [job]


def test_a_rescheduled_job_waits_for_its_new_time(conn: Connection, clock: Clock) -> None:
    definition(conn)
    job = enqueue_one(conn)
    later = clock.now() + timedelta(minutes=5)
    call(conn, "reschedule_job", job_id=job, run_at=later, tenant_id=TENANT_A)
    assert claim(conn, new_worker()) == []
    assert job_of(conn, TENANT_A, job)["run_at"] == later
    clock.travel(minutes=6)
    [row] = claim(conn, new_worker())
    assert (row["job_id"], row["queued_at"]) == (job, later)


def test_a_time_in_the_past_means_now_for_a_reschedule_too(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn, delay_s=60)
    assert edit(conn, job, run_at="2001-01-01T00:00:00Z") == "queued"
    row = job_of(conn, TENANT_A, job)
    assert row["run_at"] >= row["created_at"]


def test_an_edit_obeys_the_validation_rules_of_enqueue(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn)
    before = job_of(conn, TENANT_A, job)
    with refused("JF007", field="payload"):
        edit(conn, job, payload={"text": "x" * 300_000})
    with refused("JF002", field="run_at"):
        edit(conn, job, run_at="infinity")
    assert job_of(conn, TENANT_A, job) == before


# Retry.


def test_a_retry_of_a_finished_job_creates_a_new_one_like_it(conn: Connection) -> None:
    definition(conn)
    options: dict[str, Any] = {
        "queue": "q",
        "priority": 4,
        "timeout_s": 60,
        "tags": ["t"],
        "limit_key": "l",
    }
    options |= {"correlation_id": "c", "traceparent": "00-01", "max_attempts": 3}
    job = enqueue_one(conn, payload={"a": 1}, key="k", expires_in_s=60, **options)
    worker = new_worker()
    complete(conn, worker, claim(conn, worker, "q"), result={"done": True})
    old = job_of(conn, TENANT_A, job)

    made = job_of(conn, TENANT_A, retry(conn, job))

    assert made["retry_of"] == job
    assert {name: made[name] for name in options} == options
    assert (made["payload"], made["version"], made["attempt"]) == ({"a": 1}, 1, 0)
    assert (made["state"], made["result"], made["expires_at"]) == ("queued", None, None)
    assert job_of(conn, TENANT_A, job) == old


def test_a_retry_may_set_another_payload_and_number_of_attempts(
    conn: Connection, clock: Clock
) -> None:
    definition(conn, max_attempts=2, backoff_base_s=60)
    done = prepare(conn, clock, "succeeded")
    made = retry(conn, done.job, done.tenant, payload={"b": 2}, attempts=7)
    row = job_of(conn, done.tenant, made)
    assert (row["payload"], row["max_attempts"]) == ({"b": 2}, 7)


def test_a_finished_job_of_an_inactive_definition_is_not_retried(
    conn: Connection, clock: Clock
) -> None:
    definition(conn, max_attempts=2, backoff_base_s=60)
    done = prepare(conn, clock, "succeeded")
    definition(conn, is_active=False)
    with refused("JF010"):
        retry(conn, done.job, done.tenant)


def test_a_revived_job_keeps_its_attempt_number_and_gets_its_allowance_again(
    conn: Connection,
) -> None:
    definition(conn, max_attempts=3)
    [job] = create_dead(conn)
    assert retry(conn, job) == job
    row = job_of(conn, TENANT_A, job)
    assert (row["state"], row["attempt"], row["max_attempts"]) == ("queued", 1, 4)
    assert (row["finished_at"], row["fingerprint"] is not None) == (None, True)
    [held] = claim(conn, new_worker(), "dying")
    assert held["attempt"] == 2
    assert [a["attempt"] for a in attempts_of(conn, TENANT_A, job)] == [1]


def test_a_revived_job_gets_its_own_allowance(conn: Connection) -> None:
    definition(conn, max_attempts=5)
    job = enqueue_one(conn, max_attempts=1)
    worker = new_worker()
    complete(conn, worker, claim(conn, worker), "failed")
    retry(conn, job)
    assert job_of(conn, TENANT_A, job)["max_attempts"] == 2


def test_a_job_with_many_attempts_is_revived_and_claimed_as_any_other(conn: Connection) -> None:
    """A job that cannot be claimed would make the claims of all other jobs fail."""
    definition(conn)
    [job] = create_dead(conn)
    conn.execute("update jobforge.jobs set attempt = 100000, max_attempts = 100000")
    retry(conn, job)
    other = enqueue_one(conn, queue="dying")
    held = claim(conn, new_worker(), "dying", limit=9)
    assert {row["job_id"] for row in held} == {job, other}


def test_a_revived_job_gets_the_given_number_of_attempts(conn: Connection) -> None:
    definition(conn, max_attempts=3)
    [job] = create_dead(conn)
    retry(conn, job, attempts=1)
    worker = new_worker()
    complete(conn, worker, claim(conn, worker, "dying"), "failed")
    row = job_of(conn, TENANT_A, job)
    assert (row["state"], row["attempt"], row["max_attempts"]) == ("dead", 2, 2)


def test_a_dead_job_is_retried_with_another_payload_as_a_new_job(conn: Connection) -> None:
    definition(conn)
    [job] = create_dead(conn)
    before = job_of(conn, TENANT_A, job)
    made = job_of(conn, TENANT_A, retry(conn, job, payload={"fixed": True}))
    assert (made["retry_of"], made["payload"]) == (job, {"fixed": True})
    assert (made["state"], made["attempt"]) == ("queued", 0)
    old = job_of(conn, TENANT_A, job)
    assert (old["state"], old["cancel_reason"]) == ("canceled", "retried with another payload")
    assert (old["payload"], old["error"]) == (before["payload"], before["error"])


def test_a_retry_of_a_job_in_backoff_runs_it_now(conn: Connection, clock: Clock) -> None:
    definition(conn, max_attempts=2, backoff_base_s=3600)
    failed = prepare(conn, clock, "retrying")
    assert retry(conn, failed.job, failed.tenant) == failed.job
    [row] = claim(conn, new_worker(), failed.queue)
    assert (row["attempt"], row["max_attempts"]) == (2, 2)


# By filter.


def cancel_jobs(conn: Connection, **arguments: Any) -> int:
    answer = call_for_value(conn, "cancel_jobs", tenant_id=TENANT_A, **arguments)
    assert isinstance(answer, int)
    return answer


def retry_jobs(conn: Connection, **arguments: Any) -> int:
    answer = call_for_value(conn, "retry_jobs", tenant_id=TENANT_A, **arguments)
    assert isinstance(answer, int)
    return answer


def test_bulk_cancel_affects_matching_jobs_only(conn: Connection) -> None:
    definition(conn)
    tagged = enqueue(conn, n=3, tags=["old"])
    others = enqueue(conn, n=2)
    foreign = enqueue_one(conn, TENANT_B, tags=["old"])
    assert cancel_jobs(conn, filter={"tag": "old"}, reason="outdated") == 3
    for job in tagged:
        row = job_of(conn, TENANT_A, job)
        assert (row["state"], row["cancel_reason"]) == ("canceled", "outdated")
    assert {state_of(conn, TENANT_A, job) for job in others} == {"queued"}
    assert state_of(conn, TENANT_B, foreign) == "queued"


def test_bulk_cancel_cancels_waiting_jobs_and_asks_running_ones_to_stop(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, n=4)
    claim(conn, new_worker(), limit=2)
    assert cancel_jobs(conn, filter={}) == 4
    assert cancel_jobs(conn, filter={}) == 0
    [row] = conn.execute(
        "select count(*) filter (where cancel_requested_at is not null) as asked from jobforge.jobs"
    ).fetchall()
    assert (row["asked"], count(conn, "finished_jobs")) == (2, 2)


def test_a_dry_run_counts_and_changes_nothing(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, n=3)
    create_dead(conn, 2)
    assert cancel_jobs(conn, filter={"state": "queued"}, dry_run=True) == 3
    assert retry_jobs(conn, dry_run=True) == 2
    assert cancel_jobs(conn, filter={"state": "queued"}, dry_run=True, limit=2) == 2
    assert (count(conn, "finished_jobs"), count(conn, "audit_log")) == (0, 0)


@pytest.mark.parametrize("newer", ["finished", "asked"])
def test_bulk_cancel_repeated_reaches_every_job(conn: Connection, newer: str) -> None:
    """The limit counts jobs that can be canceled, not newer jobs that have finished or were asked
    before."""
    definition(conn)
    old = enqueue(conn, n=3)
    enqueue(conn, n=3, priority=5)
    worker = new_worker()
    rows = claim(conn, worker, limit=3)
    if newer == "finished":
        complete(conn, worker, rows)
    else:
        assert cancel_jobs(conn, filter={"state": "running"}) == 3
    assert cancel_jobs(conn, filter={}, limit=2) == 2
    assert cancel_jobs(conn, filter={}, limit=2) == 1
    assert cancel_jobs(conn, filter={}, limit=2) == 0
    assert {state_of(conn, TENANT_A, job) for job in old} == {"canceled"}


def test_redrive_takes_the_dead_jobs_of_a_group(conn: Connection) -> None:
    definition(conn, max_attempts=3)
    first = create_dead(conn, 3, message="disk 7 is full")
    create_dead(conn, 2, message="no route")
    fingerprint = job_of(conn, TENANT_A, first[0])["fingerprint"]
    assert retry_jobs(conn, filter={"fingerprint": fingerprint}) == 3
    assert {state_of(conn, TENANT_A, job) for job in first} == {"queued"}
    assert retry_jobs(conn, filter={}, attempts=2) == 2
    assert retry_jobs(conn) == 0


def test_a_redrive_is_repeated_until_no_dead_job_is_left(conn: Connection) -> None:
    definition(conn)
    create_dead(conn, 5)
    assert [retry_jobs(conn, limit=2) for _ in range(4)] == [2, 2, 1, 0]


def test_a_rate_spreads_a_redrive_over_time(conn: Connection) -> None:
    definition(conn)
    jobs = create_dead(conn, 4)
    assert retry_jobs(conn, rate=0.5) == 4
    rows = [job_of(conn, TENANT_A, job) for job in jobs]
    assert [row["state"] for row in rows] == ["queued", "scheduled", "scheduled", "scheduled"]
    seconds = [(row["run_at"] - rows[0]["run_at"]).total_seconds() for row in rows]
    assert seconds == [0, 2, 4, 6]


def test_discarding_a_dead_job_keeps_its_error_and_attempts(conn: Connection) -> None:
    definition(conn)
    [job] = create_dead(conn)
    assert call_for_value(conn, "cancel_job", job_id=job, tenant_id=TENANT_A) == "canceled"
    row = job_of(conn, TENANT_A, job)
    assert (row["state"], row["error"], row["attempt"]) == ("canceled", ERROR, 1)
    assert len(attempts_of(conn, TENANT_A, job)) == 1


# Cancel.


def test_the_first_reason_of_a_cancel_stays(conn: Connection, clock: Clock) -> None:
    definition(conn, max_attempts=2, backoff_base_s=60)
    running = prepare(conn, clock, "running")
    for reason in ["first", "second"]:
        call(conn, "cancel_job", job_id=running.job, reason=reason, tenant_id=running.tenant)
    _complete(running, "canceled", reason="by the handler")
    row = running.row()
    assert (row["state"], row["cancel_reason"]) == ("canceled", "first")


def test_a_job_that_succeeds_after_a_cancel_request_has_succeeded(
    conn: Connection, clock: Clock
) -> None:
    definition(conn, max_attempts=2, backoff_base_s=60)
    asked = prepare(conn, clock, "canceling")
    _complete(asked, "succeeded", result={"n": 1})
    row = asked.row()
    assert (row["state"], row["result"], row["cancel_reason"]) == ("succeeded", {"n": 1}, None)


def _complete(subject: Subject, outcome: str, **fields: Any) -> None:
    complete(subject.conn, subject.worker, [subject.held], outcome, **fields)
