"""Jobs that are blocked although all their parents have ended: maintenance frees them."""

from uuid import UUID

import pytest
from cluster import Clock, Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    call,
    claim,
    complete,
    definition,
    enqueue_one,
    new_worker,
    state_of,
    token,
)


@pytest.fixture(autouse=True)
def _test_definition(conn: Connection) -> None:
    definition(conn)


def child_of(conn: Connection, parent: UUID, tenant: UUID = TENANT_A) -> UUID:
    return enqueue_one(conn, tenant, after=[str(parent)])


def left_behind(conn: Connection, tenant: UUID = TENANT_A) -> UUID:
    """A blocked job that nobody will free: what it waited for is no longer on record."""
    job = child_of(conn, enqueue_one(conn, tenant, delay_s=3600), tenant)
    conn.execute("delete from jobforge.awaited_jobs where waiter_id = %s", [job])
    return job


def sweep(conn: Connection, limit: int = 1000, after: Row | None = None) -> Row:
    """One step of the sweep; `after` is what the step before it returned."""
    position = (after["after_tenant"], after["after_id"]) if after else (None, None)
    [row] = conn.execute(
        "select * from jobforge.free_blocked_jobs(%s::integer, %s, %s)", (limit, *position)
    ).fetchall()
    return row


def test_a_job_that_waits_for_nothing_is_freed_and_wakes_its_queue(
    conn: Connection, connect: Connect
) -> None:
    stuck, waiting = left_behind(conn), child_of(conn, enqueue_one(conn, delay_s=3600))
    listener = connect()
    listener.execute(b'listen "jobforge:default"')
    assert sweep(conn) == {"after_tenant": None, "after_id": None, "freed": 1}
    assert (state_of(conn, TENANT_A, stuck), state_of(conn, TENANT_A, waiting)) == (
        "queued",
        "blocked",
    )
    assert len(list(listener.notifies(timeout=30, stop_after=1))) == 1
    assert [row["job_id"] for row in claim(conn, new_worker(), limit=9)] == [stuck]
    assert sweep(conn)["freed"] == 0


def test_a_job_whose_gathered_jobs_have_ended_is_freed(conn: Connection) -> None:
    worker, other = new_worker(), enqueue_one(conn, delay_s=3600)
    enqueue_one(conn)
    [held] = claim(conn, worker)
    wait = {"kind": "gather", "name": "all", "index": 0, "jobs": [str(other)]}
    outcome = token(held) | {"outcome": "snoozed", "retry_in_s": 0, "wait": wait}
    call(conn, "complete_jobs", worker_id=worker, outcomes=[outcome])
    assert sweep(conn)["freed"] == 0
    conn.execute("delete from jobforge.awaited_jobs")
    assert sweep(conn)["freed"] == 1
    assert state_of(conn, TENANT_A, held["job_id"]) == "queued"


def test_the_sweep_goes_on_where_it_stopped(conn: Connection) -> None:
    stuck = [left_behind(conn, tenant) for tenant in (TENANT_A, TENANT_B, TENANT_A)]
    first = sweep(conn, 1)
    second = sweep(conn, 1, first)
    third = sweep(conn, 1, second)
    assert [row["freed"] for row in (first, second, third)] == [1, 1, 1]
    assert (third["after_tenant"], third["after_id"]) == (TENANT_B, stuck[1])
    assert sweep(conn, 1, third) == {"after_tenant": None, "after_id": None, "freed": 0}


def test_the_sweep_waits_for_nobody(conn: Connection, connect: Connect) -> None:
    locked, stuck = left_behind(conn), left_behind(conn)
    holding, sweeping = connect(autocommit=False), connect()
    holding.execute("select from jobforge.jobs where id = %s for update", [locked])
    sweeping.execute("set lock_timeout = '1ms'")
    assert sweep(sweeping)["freed"] == 1
    holding.rollback()
    assert (state_of(conn, TENANT_A, locked), state_of(conn, TENANT_A, stuck)) == (
        "blocked",
        "queued",
    )


def test_a_job_that_gets_a_new_parent_is_not_freed(conn: Connection, connect: Connect) -> None:
    """A retry gives a blocked child its new parent in a transaction that is still open."""
    parent = enqueue_one(conn)
    worker = new_worker()
    complete(conn, worker, claim(conn, worker), "failed", final=True)
    child = enqueue_one(conn, after=[str(parent)], on_parent_failure="wait")
    application = connect(autocommit=False)
    call(application, "retry_job", job_id=parent, payload={"again": True}, tenant_id=TENANT_A)
    assert sweep(conn)["freed"] == 0
    application.commit()
    assert sweep(conn)["freed"] == 0
    assert state_of(conn, TENANT_A, child) == "blocked"


def test_the_explanation_of_such_a_job_names_no_parents(conn: Connection) -> None:
    job = left_behind(conn)
    rows = call(conn, "explain_job", job_id=job, tenant_id=TENANT_A)
    assert rows[0]["code"] == "freed_soon"
    assert "waits for 0" not in " ".join(row["message"] for row in rows)
    sweep(conn)
    assert "freed_soon" not in {
        row["code"] for row in call(conn, "explain_job", job_id=job, tenant_id=TENANT_A)
    }


def test_the_doctor_is_told_of_such_jobs_after_five_minutes(conn: Connection, clock: Clock) -> None:
    job = left_behind(conn)
    child_of(conn, enqueue_one(conn, delay_s=3600))
    clock.travel(minutes=4)
    assert call(conn, "find_problems") == []
    clock.travel(minutes=2)
    [trouble] = call(conn, "find_problems")
    assert (trouble["kind"], trouble["subject"], trouble["tenant_id"], trouble["detail"]) == (
        "blocked",
        str(job),
        TENANT_A,
        "test",
    )
    sweep(conn)
    assert {row["kind"] for row in call(conn, "find_problems")} <= {"unserved"}
