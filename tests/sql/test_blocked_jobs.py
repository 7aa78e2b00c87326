"""Jobs that are blocked although all their parents have finished: maintenance frees them."""

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
    count,
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


def create_orphan(conn: Connection, tenant: UUID = TENANT_A) -> UUID:
    """Create a blocked job that no settlement will free: its dependencies are no longer
    recorded."""
    job = child_of(conn, enqueue_one(conn, tenant, delay_s=3600), tenant)
    conn.execute("delete from jobforge.awaited_jobs where waiter_id = %s", [job])
    return job


def sweep(conn: Connection, limit: int = 1000, after: Row | None = None) -> Row:
    """Run one step of the sweep; `after` is the result of the previous step."""
    position = (after["after_tenant"], after["after_id"]) if after else (None, None)
    [row] = conn.execute(
        "select * from jobforge.free_blocked_jobs(%s::integer, %s, %s)", (limit, *position)
    ).fetchall()
    return row


def test_a_job_that_waits_for_no_other_is_freed_and_wakes_its_queue(
    conn: Connection, connect: Connect
) -> None:
    stuck, waiting = create_orphan(conn), child_of(conn, enqueue_one(conn, delay_s=3600))
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


def test_a_job_whose_gathered_jobs_have_finished_is_freed(conn: Connection) -> None:
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


def create_child_of_finished(conn: Connection, policy: str, *, succeeded: bool) -> UUID:
    """Create a blocked job whose parent finished without deleting the dependency row."""
    parent = enqueue_one(conn)
    job = enqueue_one(conn, after=[str(parent)], on_parent_failure=policy)
    kept = conn.execute("select * from jobforge.awaited_jobs where waiter_id = %s", [job])
    rows = [tuple(row.values()) for row in kept.fetchall()]
    conn.execute("delete from jobforge.awaited_jobs where waiter_id = %s", [job])
    if succeeded:
        worker = new_worker()
        complete(conn, worker, claim(conn, worker))
    else:
        call(conn, "cancel_job", job_id=parent, tenant_id=TENANT_A)
    for row in rows:
        conn.execute("insert into jobforge.awaited_jobs values (%s, %s, %s, %s, %s)", row)
    assert state_of(conn, TENANT_A, job) == "blocked"
    return job


@pytest.mark.parametrize(
    ("policy", "succeeded"), [("cancel", True), ("wait", True), ("run", True), ("run", False)]
)
def test_a_job_that_is_recorded_as_waiting_for_a_finished_parent_is_freed(
    conn: Connection, policy: str, *, succeeded: bool
) -> None:
    stuck = create_child_of_finished(conn, policy, succeeded=succeeded)
    rows = call(conn, "explain_job", job_id=stuck, tenant_id=TENANT_A)
    assert rows[0]["code"] == "freed_soon"
    assert sweep(conn)["freed"] == 1
    assert state_of(conn, TENANT_A, stuck) == "queued"
    assert count(conn, "awaited_jobs") == 0


@pytest.mark.parametrize("policy", ["cancel", "wait"])
def test_a_job_whose_parent_did_not_succeed_is_not_freed(conn: Connection, policy: str) -> None:
    create_child_of_finished(conn, policy, succeeded=False)
    assert sweep(conn)["freed"] == 0
    assert count(conn, "awaited_jobs") == 1


def test_a_job_that_waits_for_a_live_parent_too_is_not_freed(conn: Connection) -> None:
    stuck, live = create_child_of_finished(conn, "run", succeeded=True), enqueue_one(conn)
    conn.execute(
        "insert into jobforge.awaited_jobs values (%s, %s, %s, false, 'run')",
        [TENANT_A, stuck, live],
    )
    assert sweep(conn)["freed"] == 0
    assert state_of(conn, TENANT_A, stuck) == "blocked"


def test_a_job_that_is_being_enqueued_is_not_freed(conn: Connection, connect: Connect) -> None:
    """Its parents are visible to no other session, or are locked by its transaction."""
    parent, application = enqueue_one(conn), connect(autocommit=False)
    inner = enqueue_one(application, delay_s=3600)
    children = [child_of(application, parent), child_of(application, inner)]
    sweeping = connect()
    sweeping.execute("set lock_timeout = '1ms'")
    assert sweep(sweeping)["freed"] == 0
    application.commit()
    assert sweep(sweeping)["freed"] == 0
    assert {state_of(conn, TENANT_A, child) for child in children} == {"blocked"}


def test_the_sweep_resumes_where_it_stopped(conn: Connection) -> None:
    stuck = [create_orphan(conn, tenant) for tenant in (TENANT_A, TENANT_B, TENANT_A)]
    first = sweep(conn, 1)
    second = sweep(conn, 1, first)
    third = sweep(conn, 1, second)
    assert [row["freed"] for row in (first, second, third)] == [1, 1, 1]
    assert (third["after_tenant"], third["after_id"]) == (TENANT_B, stuck[1])
    assert sweep(conn, 1, third) == {"after_tenant": None, "after_id": None, "freed": 0}


def test_the_sweep_does_not_wait_for_locks(conn: Connection, connect: Connect) -> None:
    locked, stuck = create_orphan(conn), create_orphan(conn)
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
    job = create_orphan(conn)
    rows = call(conn, "explain_job", job_id=job, tenant_id=TENANT_A)
    assert rows[0]["code"] == "freed_soon"
    assert "Waiting for 0" not in " ".join(row["message"] for row in rows)
    sweep(conn)
    assert "freed_soon" not in {
        row["code"] for row in call(conn, "explain_job", job_id=job, tenant_id=TENANT_A)
    }


def test_the_doctor_reports_such_jobs_after_five_minutes(conn: Connection, clock: Clock) -> None:
    job = create_orphan(conn)
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
