"""The effect of an outcome: the job's new row, its attempt, its next time.

Who may settle, and how often, is in test_fencing.py.
"""

from datetime import timedelta
from typing import Any

import pytest
from cluster import Clock, Connection
from psycopg.types.json import Jsonb
from sql.engine import (
    TENANT_A,
    TENANT_B,
    attempts_of,
    call,
    claim,
    complete,
    definition,
    enqueue,
    enqueue_one,
    job_of,
    new_worker,
    reap,
    refused,
    state_of,
    token,
)
from sql.lifecycle_actions import Subject, prepare

ERROR = {"type": "ValueError", "message": "no such user 17"}


@pytest.fixture
def running(conn: Connection, clock: Clock) -> Subject:
    definition(conn, max_attempts=2, backoff_base_s=60)
    return prepare(conn, clock, "running")


def settle(subject: Subject, outcome: str, **fields: Any) -> None:
    [row] = complete(subject.conn, subject.worker, [subject.held], outcome, **fields)
    assert row["status"] == "ok"


def test_a_success_stores_its_result(running: Subject) -> None:
    settle(running, "succeeded", result={"rows": 3}, artifact_ref="s3://x")
    job = running.row()
    assert (job["state"], job["result"], job["artifact_ref"]) == (
        "succeeded",
        {"rows": 3},
        "s3://x",
    )
    assert (job["error"], job["worker_id"], job["lease"]) == (
        None,
        running.worker,
        running.held["lease"],
    )


def test_a_failure_stores_its_error_and_the_attempt_its_measurements(running: Subject) -> None:
    measured = {
        "exit_code": 3,
        "pid": 4711,
        "peak_memory_bytes": 5 * 2**30,
        "cpu_ms": 1200,
        "stdout_tail": "out",
        "stderr_tail": "err",
    }
    settle(running, "failed", error=ERROR, **measured)
    job, [attempt] = running.row(), running.attempts()
    assert (job["error"], job["result"]) == (ERROR, None)
    assert {name: attempt[name] for name in measured} == measured
    assert (attempt["outcome"], attempt["error"], attempt["attempt"]) == ("failed", ERROR, 1)
    assert attempt["fingerprint"] == job["fingerprint"]
    assert attempt["started_at"] <= attempt["ended_at"]
    assert (attempt["definition"], attempt["version"], attempt["queue"]) == (
        "test",
        1,
        running.queue,
    )


def test_similar_failures_have_one_fingerprint(conn: Connection) -> None:
    definition(conn, "test")
    definition(conn, "other")
    messages = [
        "user 17 not found at 0x7f3a",
        "user 4 not found at 0x11",
        "host 'a' is gone",
        "host 'b' is gone",
        "something else",
    ]
    found = []
    for name, message in [("test", message) for message in messages] + [("other", messages[0])]:
        job = enqueue_one(conn, definition=name)
        worker = new_worker()
        error = {"type": "E", "message": message}
        complete(conn, worker, claim(conn, worker), "failed", error=error)
        found.append(job_of(conn, TENANT_A, job)["fingerprint"])
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert len(set(found)) == 4


# When the job runs again.


@pytest.mark.parametrize(
    ("attempt", "base", "cap"), [(1, 1, 3600), (2, 1, 3600), (5, 1, 3600), (5, 100, 300)]
)
def test_a_failed_attempt_waits_its_backoff(
    conn: Connection, attempt: int, base: float, cap: float
) -> None:
    definition(conn, max_attempts=9, backoff_base_s=base, backoff_cap_s=cap)
    job = enqueue_one(conn)
    conn.execute("update jobforge.jobs set attempt = %s", [attempt - 1])
    worker = new_worker()
    complete(conn, worker, claim(conn, worker), "failed")
    [ended] = attempts_of(conn, TENANT_A, job)
    wait = (job_of(conn, TENANT_A, job)["run_at"] - ended["ended_at"]).total_seconds()
    expected = min(cap, base * 2 ** (attempt - 1))
    assert expected <= wait <= expected * 1.1


def test_backoffs_of_jobs_that_failed_together_are_spread(conn: Connection) -> None:
    definition(conn, backoff_base_s=100)
    enqueue(conn, n=20)
    worker = new_worker()
    complete(conn, worker, claim(conn, worker, limit=20), "failed")
    [row] = conn.execute("select count(distinct run_at) as n from jobforge.jobs").fetchall()
    assert row["n"] > 1


@pytest.mark.parametrize("outcome", ["failed", "timed_out", "crashed", "snoozed"])
def test_the_handler_can_choose_when_its_job_runs_again(running: Subject, outcome: str) -> None:
    settle(running, outcome, retry_in_s=7.5)
    job, [attempt] = running.row(), running.attempts()
    assert job["run_at"] - attempt["ended_at"] == timedelta(seconds=7.5)
    assert (job["state"], job["queued_at"]) == ("scheduled", None)


def test_a_snooze_may_name_a_time(running: Subject) -> None:
    until = running.clock.now() + timedelta(hours=5)
    settle(running, "snoozed", run_at=until.isoformat())
    assert running.row()["run_at"] == until
    assert running.row()["attempt"] == 0


def test_a_snooze_leaves_the_last_error_as_it_was(running: Subject) -> None:
    settle(running, "failed", error=ERROR, retry_in_s=0)
    [again] = claim(running.conn, running.worker, running.queue)
    complete(running.conn, running.worker, [again], "snoozed", retry_in_s=5)
    job = running.row()
    assert (job["error"], job["attempt"]) == (ERROR, 1)


def test_a_released_job_keeps_its_place_in_the_queue(running: Subject) -> None:
    before = running.row()
    settle(running, "released")
    job = running.row()
    assert (job["run_at"], job["queued_at"]) == (before["run_at"], before["queued_at"])
    assert (job["state"], job["attempt"], job["lease"]) == ("queued", 0, before["lease"])


def test_a_job_may_be_released_and_snoozed_indefinitely(conn: Connection) -> None:
    definition(conn, max_attempts=1)
    job, worker = enqueue_one(conn), new_worker()
    for outcome in ["released", "snoozed"] * 5:
        complete(conn, worker, claim(conn, worker), outcome, retry_in_s=0)
    assert state_of(conn, TENANT_A, job) == "scheduled"
    attempts = attempts_of(conn, TENANT_A, job)
    assert [attempt["attempt"] for attempt in attempts] == [1] * 10


# Outcomes that cannot be stored.

WAITS = "The wait must be between 0 seconds and 366 days"


@pytest.mark.parametrize(
    ("fields", "name", "message"),
    [
        (
            {"result": {"text": "x" * 2**20}},
            "ResultTooLarge",
            (
                "The result is larger than 1 MiB; "
                "store the data elsewhere and return a reference to it"
            ),
        ),
        ({"result": "deep"}, "ResultTooDeep", "The result is nested more than 64 levels deep"),
        ({"outcome": "finished"}, "InvalidOutcome", "Unknown outcome finished"),
        ({"outcome": None}, "InvalidOutcome", "Unknown outcome null"),
        ({"outcome": "failed", "retry_in_s": -1}, "InvalidRetry", WAITS),
        ({"outcome": "failed", "retry_in_s": 1e9}, "InvalidRetry", WAITS),
        ({"outcome": "snoozed", "run_at": "infinity"}, "InvalidRetry", WAITS),
    ],
)
def test_an_outcome_that_cannot_be_stored_is_a_final_failure_that_says_so(
    running: Subject, fields: dict[str, Any], name: str, message: str
) -> None:
    if fields.get("result") == "deep":
        fields = {"result": _nested(70)}
    outcome = token(running.held) | {"outcome": "succeeded"} | fields
    [row] = call(running.conn, "complete_jobs", worker_id=running.worker, outcomes=Jsonb([outcome]))
    assert (row["status"], row["state"]) == ("ok", "dead")
    assert running.row()["error"] == {"type": name, "message": message}
    assert [attempt["outcome"] for attempt in running.attempts()] == ["failed"]


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_huge_error_keeps_its_type_and_the_start_of_its_message(running: Subject) -> None:
    error = {"type": "E" * 500, "message": "m" * 100_000, "traceback": "t" * 100_000}
    settle(running, "failed", error=error)
    kept = running.row()["error"]
    assert kept == {"type": "E" * 200, "message": "m" * 8000, "truncated": True}


def test_output_tails_keep_their_ends(running: Subject) -> None:
    settle(running, "crashed", stdout_tail="a" * 70_000 + "END", stderr_tail="b" * 10)
    [attempt] = running.attempts()
    assert len(attempt["stdout_tail"]) == 65_536
    assert attempt["stdout_tail"].endswith("END")


# Batches.


def test_an_invalid_row_in_a_batch_does_not_fail_the_others(conn: Connection) -> None:
    definition(conn)
    jobs, worker = enqueue(conn, n=3), new_worker()
    rows = claim(conn, worker, limit=3)
    outcomes = [token(row) | {"outcome": "succeeded"} for row in rows]
    outcomes[1]["lease"] += 1
    answer = call(conn, "complete_jobs", worker_id=worker, outcomes=Jsonb(outcomes))
    assert {row["job_id"]: row["status"] for row in answer} == {
        rows[0]["job_id"]: "ok",
        rows[1]["job_id"]: "lost",
        rows[2]["job_id"]: "ok",
    }
    states = sorted(state_of(conn, TENANT_A, job) for job in jobs)
    assert states == ["running", "succeeded", "succeeded"]


def test_a_batch_may_contain_different_outcomes_and_tenants(conn: Connection) -> None:
    definition(conn)
    worker = new_worker()
    for tenant in [TENANT_A, TENANT_B]:
        enqueue(conn, tenant, 3)
    rows = claim(conn, worker, limit=6)
    ways = ["succeeded", "failed", "canceled", "snoozed", "released", "crashed"]
    outcomes = [token(row) | {"outcome": way} for row, way in zip(rows, ways, strict=True)]
    answer = call(conn, "complete_jobs", worker_id=worker, outcomes=Jsonb(outcomes))
    states = {row["job_id"]: row["state"] for row in answer}
    assert [states[row["job_id"]] for row in rows] == [
        "succeeded",
        "scheduled",
        "canceled",
        "scheduled",
        "queued",
        "scheduled",
    ]


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "released", "canceled"])
def test_an_outcome_given_twice_in_a_batch_leaves_one_attempt(
    running: Subject, outcome: str
) -> None:
    complete(running.conn, running.worker, [running.held] * 2, outcome)
    assert [attempt["outcome"] for attempt in running.attempts()] == [outcome]


def test_two_outcomes_for_one_lease_in_a_batch_leave_one_attempt(running: Subject) -> None:
    outcomes = [token(running.held) | {"outcome": way} for way in ["released", "failed"]]
    call(running.conn, "complete_jobs", worker_id=running.worker, outcomes=Jsonb(outcomes))
    assert len(running.attempts()) == 1


@pytest.mark.parametrize("stale_first", [True, False])
def test_a_stale_and_a_current_token_of_a_job_may_share_a_batch(
    running: Subject, *, stale_first: bool
) -> None:
    settle(running, "failed", retry_in_s=0)
    [current] = claim(running.conn, running.worker, running.queue)
    batch = [running.held, current] if stale_first else [current, running.held]
    rows = complete(running.conn, running.worker, batch, "failed")
    assert {row["lease"]: (row["status"], row["state"]) for row in rows} == {
        running.held["lease"]: ("ok", None),
        current["lease"]: ("ok", "dead"),
    }


def test_the_single_forms_have_the_same_effect(running: Subject) -> None:
    arguments = {
        "tenant_id": running.tenant,
        "job_id": running.job,
        "worker_id": running.worker,
        "lease": running.held["lease"],
    }
    call(running.conn, "complete_job", **arguments, outcome={"outcome": "failed", "error": ERROR})
    assert running.row()["error"] == ERROR
    with refused("JF003"):
        call(running.conn, "heartbeat_job", **arguments)


def test_a_lost_lease_is_named_in_the_error(running: Subject) -> None:
    running.clock.travel(seconds=31)
    reap(running.conn)
    assert running.row()["error"]["type"] == "LeaseLost"
    [attempt] = running.attempts()
    assert (attempt["outcome"], attempt["worker_id"]) == ("lease_lost", running.worker)


def test_a_heartbeat_prevents_reaping(running: Subject) -> None:
    for _ in range(3):
        running.clock.travel(seconds=20)
        call(
            running.conn,
            "heartbeat_jobs",
            worker_id=running.worker,
            jobs=Jsonb([token(running.held)]),
        )
        assert reap(running.conn) == []
    assert running.state() == "running"
