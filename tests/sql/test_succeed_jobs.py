"""succeed_jobs, the fast path for plain successes: it has the effect of complete_jobs, or none."""

from datetime import timedelta
from uuid import UUID

import pytest
from cluster import Clock, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Json,
    Row,
    call,
    call_for_value,
    claim,
    complete,
    definition,
    enqueue,
    job_of,
    new_worker,
    state_of,
    succeed,
)
from sql.settlement import read_record

# These columns differ between any two jobs.
OWN = {"id", "job_id", "lease", "created_at", "run_at", "queued_at", "txid"}
TIMES = {"started_at", "finished_at", "ended_at"}


@pytest.fixture
def worker(conn: Connection) -> UUID:
    definition(conn)
    return new_worker()


def _held(conn: Connection, worker: UUID, n: int, **options: Json) -> list[Row]:
    enqueue(conn, n=n, **options)
    return claim(conn, worker, limit=n)


def _rows(conn: Connection, job: Row) -> list[Row]:
    """Return the job and its attempts, without what differs between any two jobs."""
    one, attempts = read_record(conn, job)
    return [{k: v for k, v in row.items() if k not in OWN | TIMES} for row in (one, *attempts)]


def test_it_writes_the_same_rows_as_complete_jobs(conn: Connection, worker: UUID) -> None:
    options: Json = {"tags": ["a"], "priority": 3, "limit_key": "k", "correlation_id": "c"}
    quick, slow = _held(conn, worker, 2, **options)
    assert succeed(conn, worker, [quick], [{"n": [1, None]}]) == []
    complete(conn, worker, [slow], result={"n": [1, None]})
    assert _rows(conn, quick) == _rows(conn, slow)
    job, [attempt] = read_record(conn, quick)
    assert job["started_at"] == attempt["started_at"] <= attempt["ended_at"] == job["finished_at"]


@pytest.mark.parametrize("delay_s", [0, 60])
def test_columns_omitted_in_a_finished_row_are_still_returned(
    conn: Connection, worker: UUID, clock: Clock, delay_s: int
) -> None:
    enqueue(conn, delay_s=delay_s)
    clock.travel(seconds=2 * delay_s)
    [job] = claim(conn, worker)
    succeed(conn, worker, [job])
    finished, [attempt] = read_record(conn, job)
    times = ("created_at", "run_at", "queued_at", "started_at")
    assert [finished[name] for name in times] == [job[name] for name in times]
    assert attempt["queued_at"] == job["queued_at"]
    assert finished["run_at"] - finished["created_at"] == timedelta(seconds=delay_s)


@pytest.mark.parametrize("further", [None, 2])
def test_a_finished_job_is_retried_with_its_original_allowance(
    conn: Connection, worker: UUID, further: int | None
) -> None:
    [job] = _held(conn, worker, 1, max_attempts=4)
    if further is not None:  # the number of its last attempt differs from its allowance
        complete(conn, worker, [job], outcome="failed", final=True)
        call(conn, "retry_job", job_id=job["job_id"], attempts=further, tenant_id=TENANT_A)
        [job] = claim(conn, worker)
    succeed(conn, worker, [job])
    again = call_for_value(conn, "retry_job", job_id=job["job_id"], tenant_id=TENANT_A)
    assert job_of(conn, TENANT_A, again)["max_attempts"] == 4


def test_each_job_gets_its_own_result(conn: Connection, worker: UUID) -> None:
    jobs = _held(conn, worker, 3)
    assert succeed(conn, worker, jobs, [{"n": 0}, None, {"n": 2}]) == []
    assert [read_record(conn, job)[0]["result"] for job in jobs] == [{"n": 0}, None, {"n": 2}]


def test_it_returns_the_jobs_it_did_not_settle_and_leaves_them_unchanged(
    conn: Connection, worker: UUID
) -> None:
    stale, ended, fine = _held(conn, worker, 3)
    complete(conn, worker, [ended])
    late = stale | {"lease": stale["lease"] - 1}
    before = read_record(conn, stale), read_record(conn, ended)
    left = succeed(conn, worker, [late, ended, fine])
    assert {(row["job_id"], row["lease"]) for row in left} == {
        (late["job_id"], late["lease"]),
        (ended["job_id"], ended["lease"]),
    }
    assert (read_record(conn, stale), read_record(conn, ended)) == before
    assert state_of(conn, TENANT_A, fine["job_id"]) == "succeeded"


def test_a_result_that_cannot_be_stored_is_left_to_complete_jobs(
    conn: Connection, worker: UUID
) -> None:
    result: Json = {}
    for _ in range(65):
        result = {"in": result}
    deep, fine = _held(conn, worker, 2)
    [left] = succeed(conn, worker, [deep, fine], [result, {"n": 1}])
    assert left["job_id"] == deep["job_id"]
    [answer] = complete(conn, worker, [deep], result=result)
    assert answer["state"] == "dead"


def test_a_job_that_succeeds_after_a_cancel_request_has_succeeded(
    conn: Connection, worker: UUID
) -> None:
    [job] = _held(conn, worker, 1)
    conn.execute("select jobforge.cancel_job(%s, null, %s)", [job["job_id"], TENANT_A])
    assert succeed(conn, worker, [job]) == []
    assert state_of(conn, TENANT_A, job["job_id"]) == "succeeded"


def test_within_a_tenant_it_settles_no_other_tenants_jobs(conn: Connection, worker: UUID) -> None:
    enqueue(conn, TENANT_B)
    [foreign] = claim(conn, worker)
    with conn.transaction():
        conn.execute("select set_config('app.tenant_id', %s, true)", [str(TENANT_A)])
        [left] = succeed(conn, worker, [foreign])
    assert left["job_id"] == foreign["job_id"]
    assert state_of(conn, TENANT_B, foreign["job_id"]) == "running"
