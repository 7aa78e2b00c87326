"""Queries of jobs: lists with filters and pages, one job with its timeline, the summary."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from cluster import Clock, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    call,
    claim,
    complete,
    definition,
    enqueue,
    enqueue_one,
    job_of,
    new_worker,
)
from sql.lifecycle_actions import prepare

ERROR = {"type": "E", "message": "no"}


def list_ids(conn: Connection, tenant: UUID = TENANT_A, **arguments: Any) -> list[UUID]:
    return [row["id"] for row in call(conn, "list_jobs", tenant_id=tenant, **arguments)]


def finish(conn: Connection, n: int, outcome: str = "succeeded", **fields: Any) -> list[UUID]:
    jobs = enqueue(conn, n=n, queue="finishing")
    worker = new_worker()
    complete(conn, worker, claim(conn, worker, "finishing", n), outcome, **fields)
    return jobs


# Lists.


def test_a_list_is_newest_first_without_payloads_and_results(conn: Connection) -> None:
    definition(conn)
    jobs = enqueue(conn, n=3, payload={"secret": 1})
    enqueue(conn, TENANT_B)
    rows = call(conn, "list_jobs", tenant_id=TENANT_A)
    assert [row["id"] for row in rows] == jobs[::-1]
    assert not {"payload", "result"} & set(rows[0])
    stored = job_of(conn, TENANT_A, jobs[2])
    assert {name: stored[name] for name in rows[0]} == rows[0]


STATES = ["scheduled", "blocked", "queued", "running", "canceling", "succeeded", "canceled", "dead"]


@pytest.fixture(scope="module")
def jobs_in_each_state(shared_conn: Connection, shared_clock: Clock) -> dict[str, UUID]:
    """A job in each state, all of one tenant; the running ones have failed before."""
    definition(shared_conn, max_attempts=2, backoff_base_s=60)
    subjects = {
        state: prepare(shared_conn, shared_clock, state)
        for state in [*STATES, "retrying", "last attempt"]
    }
    for subject in subjects.values():
        for table, column in [("jobs", "id"), ("finished_jobs", "id"), ("attempts", "job_id")]:
            shared_conn.execute(
                f"update jobforge.{table} set tenant_id = %s where {column} = %s".encode(),
                [TENANT_A, subject.job],
            )
    return {state: subject.job for state, subject in subjects.items()}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("scheduled", ["scheduled", "retrying"]),
        ("blocked", ["blocked"]),
        ("queued", ["queued"]),
        ("running", ["running", "last attempt", "canceling"]),
        ("canceling", ["canceling"]),
        ("succeeded", ["succeeded"]),
        ("canceled", ["canceled"]),
        ("dead", ["dead"]),
        ("failed", ["retrying", "dead"]),
        (["queued", "succeeded"], ["queued", "succeeded"]),
        (["canceling", "dead"], ["canceling", "dead"]),
        (["failed", "succeeded"], ["retrying", "dead", "succeeded"]),
    ],
    ids=str,
)
def test_a_list_is_filtered_by_state(
    shared_conn: Connection, jobs_in_each_state: dict[str, UUID], wanted: Any, found: list[str]
) -> None:
    ids = list_ids(shared_conn, filter={"state": wanted})
    assert set(ids) == {jobs_in_each_state[state] for state in found}
    assert ids == sorted(ids, reverse=True)
    assert list_ids(shared_conn, filter={"state": wanted}, order="oldest") == ids[::-1]


def test_a_running_job_that_was_asked_to_stop_is_listed_as_canceling(
    shared_conn: Connection, jobs_in_each_state: dict[str, UUID]
) -> None:
    [row] = call(shared_conn, "list_jobs", filter={"state": "canceling"}, tenant_id=TENANT_A)
    assert (row["id"], row["state"]) == (jobs_in_each_state["canceling"], "canceling")


def test_failed_selects_a_job_whose_last_attempt_had_no_error(conn: Connection) -> None:
    definition(conn)
    [job] = finish(conn, 1, "timed_out")
    assert list_ids(conn, filter={"state": "failed"}) == [job]


def test_failed_does_not_select_a_job_that_succeeded_in_the_end(conn: Connection) -> None:
    definition(conn)
    enqueue_one(conn)
    worker = new_worker()
    complete(conn, worker, claim(conn, worker), "failed", error=ERROR, retry_in_s=0)
    complete(conn, worker, claim(conn, worker), "succeeded")
    assert list_ids(conn, filter={"state": "failed"}) == []


FILTERS: list[tuple[str, Any, dict[str, Any]]] = [
    ("definition", "other", {"definition": "other"}),
    ("queue", "mail", {"queue": "mail"}),
    ("tag", "red", {"tags": ["blue", "red"]}),
    ("key", "k-1", {"key": "k-1"}),
    ("correlation_id", "c-1", {"correlation_id": "c-1"}),
]


@pytest.mark.parametrize(("field", "value", "options"), FILTERS, ids=[f[0] for f in FILTERS])
def test_a_list_is_filtered_by_each_field_live_and_finished(
    conn: Connection, field: str, value: Any, options: dict[str, Any]
) -> None:
    definition(conn)
    definition(conn, "other")
    enqueue(conn, n=2)
    live = enqueue_one(conn, **options)
    if field == "key":
        assert list_ids(conn, filter={field: value}) == [live]
        return
    done = enqueue_one(conn, **options)
    call(conn, "cancel_job", job_id=done, tenant_id=TENANT_A)
    assert list_ids(conn, filter={field: value}) == [done, live]
    assert list_ids(conn, filter={field: value, "state": "queued"}) == [live]
    assert list_ids(conn, filter={field: "no such"}) == []


def test_a_list_is_filtered_by_source(conn: Connection) -> None:
    definition(conn)
    enqueue_one(conn)
    assert len(list_ids(conn, filter={"source": "manual"})) == 1
    assert list_ids(conn, filter={"source": "schedule"}) == []


def test_a_list_is_filtered_by_time_of_creation(conn: Connection, clock: Clock) -> None:
    definition(conn)
    old = enqueue_one(conn)
    clock.travel(hours=1)
    between = (clock.now() - timedelta(minutes=1)).isoformat()
    new = enqueue_one(conn)
    assert list_ids(conn, filter={"created_after": between}) == [new]
    assert list_ids(conn, filter={"created_before": between}) == [old]


@pytest.mark.parametrize("state", [None, "dead"])
def test_a_list_is_filtered_by_fingerprint(conn: Connection, state: str | None) -> None:
    definition(conn)
    alike = finish(conn, 2, "failed", final=True, error={"type": "E", "message": "a 1"})
    finish(conn, 2, "failed", final=True, error={"type": "E", "message": "b"})
    fingerprint = job_of(conn, TENANT_A, alike[0])["fingerprint"]
    wanted = {"fingerprint": fingerprint} | ({"state": state} if state else {})
    assert list_ids(conn, filter=wanted) == alike[::-1]
    assert list_ids(conn, filter=wanted | {"queue": "elsewhere"}) == []
    assert list_ids(conn, filter=wanted, before=alike[1]) == alike[:1]
    assert list_ids(conn, filter=wanted, before=alike[0], order="oldest") == alike[1:]


@pytest.mark.parametrize("size", [1, 7, 50])
def test_pages_over_live_and_finished_jobs_have_no_gaps_and_no_duplicates(
    conn: Connection, size: int
) -> None:
    definition(conn)
    jobs: list[UUID] = []
    for n in range(1, 8):
        jobs += enqueue(conn, n=n)
        jobs += finish(conn, n)
        jobs += finish(conn, 2, "failed", final=True)
    seen: list[UUID] = []
    page = list_ids(conn, limit=size)
    while page:
        seen += page
        page = list_ids(conn, limit=size, before=page[-1])
    assert seen == sorted(jobs, reverse=True)


def test_a_job_that_finishes_between_two_pages_is_seen_once(conn: Connection) -> None:
    definition(conn)
    jobs = enqueue(conn, n=6)
    first = list_ids(conn, limit=3)
    worker = new_worker()
    complete(conn, worker, claim(conn, worker, limit=6))
    assert first + list_ids(conn, limit=3, before=first[-1]) == jobs[::-1]
    oldest = list_ids(conn, limit=3, order="oldest")
    assert oldest + list_ids(conn, limit=3, before=oldest[-1], order="oldest") == jobs


# One job.


def get(conn: Connection, job: UUID) -> Row:
    [row] = call(conn, "get_job", job_id=job, tenant_id=TENANT_A)
    return row


def test_one_job_has_all_its_columns(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn, payload={"a": 1}, tags=["t"])
    got = get(conn, job)
    around = {"parents", "children", "workflow"}
    assert set(got["job"]) - around == set(job_of(conn, TENANT_A, job))
    assert (got["job"]["id"], got["job"]["payload"]) == (str(job), {"a": 1})
    assert got["attempts"] == []
    assert [event["kind"] for event in got["events"]] == ["created"]


def test_the_attempt_in_progress_is_among_the_attempts(conn: Connection) -> None:
    definition(conn)
    job, worker = enqueue_one(conn), new_worker()
    complete(conn, worker, claim(conn, worker), "failed", error=ERROR, retry_in_s=0)
    [held] = claim(conn, worker)
    first, second = get(conn, job)["attempts"]
    assert (first["attempt"], first["outcome"], first["error"]) == (1, "failed", ERROR)
    assert (second["attempt"], second["outcome"], second["ended_at"]) == (2, None, None)
    assert (second["lease"], second["worker_id"]) == (held["lease"], str(worker))


def test_a_timeline_has_the_events_in_order(conn: Connection, clock: Clock) -> None:
    definition(conn, max_attempts=1)
    conn.execute("select set_config('app.actor', 'ada', false)")
    job, worker = enqueue_one(conn, created_by="app", delay_s=60), new_worker()
    clock.travel(seconds=1)
    call(conn, "edit_job", job_id=job, changes={"priority": 2}, tenant_id=TENANT_A)
    call(conn, "reschedule_job", job_id=job, run_at=None, tenant_id=TENANT_A)
    complete(conn, worker, claim(conn, worker), "failed", error=ERROR)
    call(conn, "retry_job", job_id=job, tenant_id=TENANT_A)
    held = claim(conn, worker)
    call(conn, "cancel_job", job_id=job, reason="enough", tenant_id=TENANT_A)
    complete(conn, worker, held, "canceled")
    got = get(conn, job)
    assert [event["kind"] for event in got["events"]] == [
        "created",
        "edited",
        "edited",
        "attempt_started",
        "attempt_ended",
        "retried",
        "attempt_started",
        "cancel_requested",
        "attempt_ended",
        "canceled",
    ]
    by_kind = {event["kind"]: event for event in got["events"]}
    assert by_kind["created"]["actor"] == "app"
    assert by_kind["retried"]["actor"] == "ada"
    assert by_kind["cancel_requested"]["data"] == {"reason": "enough"}
    assert by_kind["attempt_ended"]["data"] == {"attempt": 2, "outcome": "canceled"}
    assert by_kind["canceled"]["data"] == {"reason": "enough"}
    times = [event["at"] for event in got["events"]]
    assert times == sorted(times)


def test_an_edit_does_not_copy_the_payload_into_the_timeline(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn)
    changes = {"payload": {"secret": "s3cret"}, "priority": 1}
    call(conn, "edit_job", job_id=job, changes=changes, tenant_id=TENANT_A)
    [edited] = [event for event in get(conn, job)["events"] if event["kind"] == "edited"]
    assert edited["data"] == {"priority": 1}


def test_a_job_asked_to_stop_is_shown_as_canceling(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn)
    claim(conn, new_worker())
    call(conn, "cancel_job", job_id=job, tenant_id=TENANT_A)
    assert get(conn, job)["job"]["state"] == "canceling"


# The summary.


def summary(conn: Connection, **arguments: Any) -> dict[tuple[str, str], int]:
    rows = call(conn, "summarize", tenant_id=TENANT_A, **arguments)
    return {(row["queue"], row["state"]): row["jobs"] for row in rows}


def test_the_summary_counts_by_queue_and_state(conn: Connection) -> None:
    definition(conn, max_attempts=1)
    finish(conn, 2)
    finish(conn, 3, "failed")
    finish(conn, 1, "canceled")
    enqueue(conn, n=4)
    enqueue(conn, n=2, delay_s=60)
    enqueue(conn, TENANT_B, n=9)
    claim(conn, new_worker(), tenants=[TENANT_A])
    assert summary(conn) == {
        ("default", "queued"): 3,
        ("default", "running"): 1,
        ("default", "scheduled"): 2,
        ("finishing", "canceled"): 1,
        ("finishing", "dead"): 3,
        ("finishing", "succeeded"): 2,
    }


def test_the_summary_has_the_time_since_the_oldest_job_waits(
    conn: Connection, clock: Clock
) -> None:
    definition(conn)
    oldest = enqueue_one(conn)
    clock.travel(minutes=5)
    enqueue_one(conn)
    [row] = call(conn, "summarize", tenant_id=TENANT_A)
    assert row["oldest_queued_at"] == job_of(conn, TENANT_A, oldest)["queued_at"]


def test_the_summary_omits_jobs_that_finished_before_its_window(
    conn: Connection, clock: Clock
) -> None:
    definition(conn)
    finish(conn, 2)
    clock.travel(hours=2)
    finish(conn, 1)
    assert summary(conn) == {("finishing", "succeeded"): 3}
    assert summary(conn, window_s=3600) == {("finishing", "succeeded"): 1}
