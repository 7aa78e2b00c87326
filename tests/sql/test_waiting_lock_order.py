"""Sessions that end jobs with children lock the children in one order, then their workflows.

Other sessions lock rows that both sessions need, until both wait. With two different orders, these
two would then wait for each other.
"""

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from cluster import Connect, Connection
from sql.engine import (
    TENANT_A,
    Json,
    Row,
    call,
    call_for_value,
    claim,
    complete,
    count,
    definition,
    enqueue_one,
    new_worker,
    state_of,
    token,
)
from sql.interleaver import Action, Interleaver, Script


@pytest.fixture
def interleaver(conn: Connection, connect: Connect) -> Iterator[Interleaver]:
    definition(conn, max_attempts=1)
    made = Interleaver(conn, [connect(autocommit=False) for _ in range(5)])
    yield made
    made.close()


def test_a_settlement_of_successes_and_failures_and_a_cancel_of_children_do_not_deadlock(
    conn: Connection, interleaver: Interleaver
) -> None:
    nodes = [_node("good"), _node("bad"), _node("later", after=["bad"])]
    rows = call(conn, "enqueue_workflow", workflow={"nodes": nodes}, tenant_id=TENANT_A)
    jobs = {row["node"]: row["job_id"] for row in rows}
    worker = new_worker()
    held = {row["job_id"]: row for row in claim(conn, worker, limit=2)}
    outcomes = [
        token(held[jobs["good"]]) | {"outcome": "succeeded"},
        token(held[jobs["bad"]]) | {"outcome": "failed"},
    ]
    scripts = [
        Script("settle", (_settling(worker, outcomes),)),
        Script("cancel", (_canceling(state="blocked"),)),
        Script("hold", (lambda conn: conn.execute("select from jobforge.workflows for update"),)),
    ]
    interleaver.run(scripts, (2, 0, 1, 2, 0, 1), lambda: None)
    [row] = conn.execute("select state from jobforge.workflows").fetchall()
    assert (row["state"], count(conn, "awaited_jobs")) == ("failed", 0)


def test_a_settlement_of_a_gathering_job_and_a_cancel_of_its_children_do_not_deadlock(
    conn: Connection, interleaver: Interleaver
) -> None:
    parent = enqueue_one(conn)
    child, other = (enqueue_one(conn, tags=["child"]) for _ in range(2))
    worker = new_worker()
    held = {row["job_id"]: row for row in claim(conn, worker, limit=3)}
    wait = {"kind": "gather", "name": "children", "index": 0, "jobs": [str(child)]}
    outcomes = [
        token(held[parent]) | {"outcome": "snoozed", "wait": wait},
        token(held[other]) | {"outcome": "failed"},
    ]
    scripts = [
        Script("settle", (_settling(worker, outcomes),)),
        Script("cancel", (_canceling(tag="child"),)),
        Script("hold", (_holding(other),)),
    ]
    interleaver.run(scripts, (2, 0, 1, 2, 0, 1), lambda: None)
    assert state_of(conn, TENANT_A, parent) == "blocked"
    assert state_of(conn, TENANT_A, child) == "canceling"


def test_a_cancel_of_a_growing_batch_and_a_cancel_of_its_new_jobs_do_not_deadlock(
    conn: Connection, interleaver: Interleaver
) -> None:
    batch, job = _open_batch(conn)

    def add(session: Connection) -> list[Row]:
        added = {"definition": "test", "tags": ["late"]}
        return call(session, "add_to_batch", id=batch, jobs=[added], tenant_id=TENANT_A)

    scripts = [
        Script("hold first", (_holding(job),)),
        Script("cancel batch", (lambda conn: _cancel_batch(conn, batch),)),
        Script("add", (add, lambda conn: enqueue_one(conn, tags=["late"], priority=9))),
        Script("hold last", (_holding_last,)),
        Script("cancel", (_canceling(tag="late"),)),
    ]
    interleaver.run(scripts, (0, 1, 2, 2, 2, 3, 4, 0, 3, 4, 1), lambda: None)
    assert count(conn, "jobs") == 0
    assert _cancel_batch(conn, batch) == "canceled"


def test_a_job_added_while_its_batch_is_canceled_is_canceled_too(
    conn: Connection, interleaver: Interleaver
) -> None:
    batch, _ = _open_batch(conn)

    def add(session: Connection) -> list[Row]:
        jobs = [{"definition": "test"}]
        return call(session, "add_to_batch", id=batch, jobs=jobs, tenant_id=TENANT_A)

    scripts = [
        Script("add", (add,)),
        Script("cancel batch", (lambda conn: _cancel_batch(conn, batch),)),
    ]
    interleaver.run(scripts, (0, 1, 0, 1), lambda: None)
    assert count(conn, "jobs") == 0


def test_a_cancel_of_a_retried_parent_and_a_cancel_of_all_waiting_jobs_do_not_deadlock(
    conn: Connection, interleaver: Interleaver
) -> None:
    """The retried parent is blocked itself, and newer than the job that waits for it."""
    parent, child = _retried_parent(conn)
    assert child < parent
    scripts = [
        Script("hold", (_holding(parent),)),
        Script("cancel parent", (_canceling_one(parent),)),
        Script("cancel", (_canceling(state="blocked"),)),
    ]
    interleaver.run(scripts, (0, 1, 2, 0, 1, 2), lambda: None)
    assert state_of(conn, TENANT_A, parent) == "canceled"
    assert state_of(conn, TENANT_A, child) == "canceled"


def test_an_end_that_cancels_a_retried_parent_and_a_cancel_of_all_waiting_jobs_do_not_deadlock(
    conn: Connection, interleaver: Interleaver
) -> None:
    """The job that is freed when the retried parent is canceled is older than the parent."""
    first, parent, child = _retried_chain(conn)
    assert child < parent
    scripts = [
        Script("hold", (_holding(parent),)),
        Script("cancel first", (_canceling_one(first),)),
        Script("cancel", (_canceling(state="blocked"),)),
    ]
    interleaver.run(scripts, (0, 1, 2, 0, 1, 2), lambda: None)
    assert state_of(conn, TENANT_A, parent) == "canceled"
    assert state_of(conn, TENANT_A, child) == "canceled"


def test_a_schedule_that_cancels_its_jobs_and_a_cancel_of_the_same_jobs_do_not_deadlock(
    conn: Connection, interleaver: Interleaver
) -> None:
    """The first job of the schedule is blocked, as it is while it gathers."""
    schedule = uuid4()
    parent = enqueue_one(conn, delay_s=3600, tags=["other"])
    blocked, queued = (
        enqueue_one(conn, after=[str(parent)], tags=["own"]),
        enqueue_one(conn, tags=["own"]),
    )
    conn.execute(
        "update jobforge.jobs set source = 'schedule', source_ref = %s where id = any(%s)",
        [str(schedule), [blocked, queued]],
    )

    def apply_overlap_policy(session: Connection) -> None:
        query = "select jobforge_private.apply_overlap_policy(%s, %s, 'cancel_running')"
        session.execute(query, [TENANT_A, schedule])

    scripts = [
        Script("hold", (_holding(queued),)),
        Script("cancel", (_canceling(tag="own"),)),
        Script("make way", (apply_overlap_policy,)),
    ]
    interleaver.run(scripts, (0, 1, 2, 0, 1, 2), lambda: None)
    assert {state_of(conn, TENANT_A, job) for job in (blocked, queued)} == {"canceled"}


def _retried_parent(conn: Connection) -> tuple[UUID, UUID]:
    """Create a blocked job that was retried, and an older blocked job that waits for the new
    one."""
    grandparent = _dead(conn)
    other = enqueue_one(conn, delay_s=3600)
    after = {"on_parent_failure": "run", "after": [str(grandparent)]}
    parent = _dead(conn, **after)
    child = enqueue_one(conn, after=[str(other)], on_parent_failure="run")
    # Simulates a child that waited for both before they failed.
    conn.execute(
        "insert into jobforge.dependencies values (%s, %s, %s, clock_timestamp(), 'run')",
        [TENANT_A, child, parent],
    )
    conn.execute("update jobforge.jobs set flags = flags | 2 where id = %s", [parent])
    call(conn, "retry_job", job_id=grandparent, tenant_id=TENANT_A)
    retried = call_for_value(
        conn, "retry_job", job_id=parent, payload={"again": True}, tenant_id=TENANT_A
    )
    assert (state_of(conn, TENANT_A, retried), state_of(conn, TENANT_A, child)) == (
        "blocked",
        "blocked",
    )
    return retried, child


def _retried_chain(conn: Connection) -> tuple[UUID, UUID, UUID]:
    """Create a workflow of three jobs whose first two were retried, so the third is older than they
    are."""
    nodes = [
        _node("first"),
        _node("parent", after=["first"]),
        _node("other", delay_s=3600),
        _node("child", after=["parent", "other"], on_parent_failure="run"),
    ]
    rows = call(conn, "enqueue_workflow", workflow={"nodes": nodes}, tenant_id=TENANT_A)
    jobs = {row["node"]: row["job_id"] for row in rows}
    worker = new_worker()
    for outcome in ("succeeded", "failed"):
        complete(conn, worker, claim(conn, worker), outcome)
    call(conn, "retry_workflow", id=rows[0]["workflow_id"], **{"from": "first"}, tenant_id=TENANT_A)
    retried = {
        row["retry_of"]: row["id"]
        for row in conn.execute("select id, retry_of from jobforge.jobs where retry_of is not null")
    }
    first, parent = retried[jobs["first"]], retried[jobs["parent"]]
    assert (state_of(conn, TENANT_A, parent), state_of(conn, TENANT_A, jobs["child"])) == (
        "blocked",
        "blocked",
    )
    return first, parent, jobs["child"]


def _dead(conn: Connection, **options: Json) -> UUID:
    job, worker = enqueue_one(conn, **options), new_worker()
    [held] = claim(conn, worker)
    assert held["job_id"] == job
    complete(conn, worker, [held], "failed", final=True)
    return job


def _canceling_one(job: UUID) -> Action:
    return lambda conn: call(conn, "cancel_job", job_id=job, tenant_id=TENANT_A)


def _node(name: str, **fields: Json) -> Json:
    return {"name": name, "definition": "test", **fields}


def _open_batch(conn: Connection) -> tuple[UUID, UUID]:
    """Create a batch with one job."""
    jobs = [{"definition": "test"}]
    [made, _] = call(conn, "create_batch", batch={"open": True}, jobs=jobs, tenant_id=TENANT_A)
    return made["batch_id"], made["job_id"]


def _settling(worker: UUID, outcomes: list[Json]) -> Action:
    return lambda conn: call(conn, "complete_jobs", worker_id=worker, outcomes=outcomes)


def _canceling(**filters: str) -> Action:
    return lambda conn: call(conn, "cancel_jobs", filter=filters, tenant_id=TENANT_A)


def _cancel_batch(conn: Connection, batch: UUID) -> str:
    return str(call_for_value(conn, "cancel_batch", id=batch, tenant_id=TENANT_A))


def _holding(job: UUID) -> Action:
    return lambda conn: conn.execute("select from jobforge.jobs where id = %s for update", [job])


def _holding_last(conn: Connection) -> None:
    conn.execute("select from jobforge.jobs where priority = 9 for update")
