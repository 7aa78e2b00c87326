"""A job that another transaction frees while a cancel locks its jobs is canceled too."""

import pytest
from cluster import Connect, Connection
from sql.background_call import in_background, wait_until_blocked
from sql.engine import (
    TENANT_A,
    call,
    call_for_value,
    claim,
    complete,
    definition,
    enqueue_one,
    new_worker,
    refused,
    state_of,
)
from sql.mutation import mutate


def test_a_job_freed_while_a_cancel_waits_for_another_is_canceled(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    worker = new_worker()
    parent = enqueue_one(conn)
    held = claim(conn, worker)
    named = enqueue_one(conn, tags=["named"])
    child = enqueue_one(conn, tags=["named"], after=[str(parent)])
    settling, canceling = connect(autocommit=False), connect()
    settling.execute("select from jobforge.jobs where id = %s for update", [named])
    complete(settling, worker, held)  # its commit frees the child

    def cancel(session: Connection) -> int:
        answer = call_for_value(session, "cancel_jobs", filter={"tag": "named"}, tenant_id=TENANT_A)
        assert isinstance(answer, int)
        return answer

    with in_background(canceling, cancel) as answer:
        wait_until_blocked(conn, canceling, answer)
        settling.commit()
        assert answer.result() == 2
    assert state_of(conn, TENANT_A, named) == state_of(conn, TENANT_A, child) == "canceled"


@pytest.mark.parametrize("function", ["lock_unblocked_jobs", "lock_workflows_within"])
def test_a_cancel_that_would_start_again_reports_other_errors(
    conn: Connection, function: str
) -> None:
    definition(conn)
    nodes = [{"name": "only", "definition": "test"}]
    rows = call(conn, "enqueue_workflow", workflow={"nodes": nodes}, tenant_id=TENANT_A)
    [job] = [row["job_id"] for row in rows if row["node"] == "only"]
    mutate(conn, function, "begin", "begin perform jobforge_private.refuse('JF005', 'planted');")
    [workflow] = conn.execute("select id from jobforge.workflows").fetchall()
    with refused("JF005"):
        call(conn, "cancel_workflow", id=workflow["id"], tenant_id=TENANT_A)
    assert state_of(conn, TENANT_A, job) == "queued"


def test_a_job_that_adds_jobs_to_its_workflow_locks_smaller_ids_first(
    conn: Connection, connect: Connect
) -> None:
    """Otherwise it would deadlock with a cancel, which locks the same jobs in order of ID."""
    definition(conn)
    nodes = [{"name": "first", "definition": "test", "queue": "later"}]
    nodes += [{"name": "grower", "definition": "test", "queue": "default"}]
    rows = call(conn, "enqueue_workflow", workflow={"nodes": nodes}, tenant_id=TENANT_A)
    jobs = {row["node"]: row["job_id"] for row in rows}
    assert jobs["first"] < jobs["grower"]
    worker = new_worker()
    [held] = claim(conn, worker)
    holder, adding = connect(autocommit=False), connect()
    holder.execute("select from jobforge.jobs where id = %s for update", [jobs["first"]])

    def add(session: Connection) -> object:
        return call(
            session,
            "add_workflow_jobs",
            worker_id=worker,
            job_id=held["job_id"],
            lease=held["lease"],
            nodes=[{"name": "last", "definition": "test", "after": ["first"]}],
            tenant_id=TENANT_A,
        )

    with in_background(adding, add) as answer:
        wait_until_blocked(conn, adding, answer)
        # It waits for the smaller ID, and has not locked its own job yet.
        holder.execute(
            "select from jobforge.jobs where id = %s for update nowait", [jobs["grower"]]
        )
        holder.rollback()
        answer.result()
