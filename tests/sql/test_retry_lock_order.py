"""Retries and retention lock jobs before workflows, and workflows before their nodes.

Another session locks rows that both sessions need, until both wait. With two different orders,
these two would then wait for each other.
"""

from collections.abc import Iterator
from uuid import UUID

import pytest
from cluster import Connect, Connection
from sql.engine import (
    TENANT_A,
    Json,
    call,
    call_for_value,
    claim,
    complete,
    count,
    definition,
    enqueue_one,
    new_worker,
    state_of,
)
from sql.interleaver import Action, Interleaver, Outcome, Script

HELD_UP = (2, 0, 1, 2, 0, 1)


@pytest.fixture
def interleaver(conn: Connection, connect: Connect) -> Iterator[Interleaver]:
    definition(conn, max_attempts=1)
    made = Interleaver(conn, [connect(autocommit=False) for _ in range(3)])
    yield made
    made.close()


def test_a_retry_of_a_workflow_and_a_retry_of_its_dead_job_do_not_deadlock(
    conn: Connection, interleaver: Interleaver
) -> None:
    workflow, [job] = _dead_workflow(conn, ["only"])
    _run(interleaver, _retrying_workflow(workflow), _retrying(job), _hold("workflows"))
    assert _state(conn, workflow) == "running"
    assert state_of(conn, TENANT_A, job) == "canceled"


def test_a_retry_of_a_workflow_sees_that_its_dead_job_was_revived(
    conn: Connection, interleaver: Interleaver
) -> None:
    workflow, [job] = _dead_workflow(conn, ["only"])
    scripts = [
        Script("retry", (_retrying(job),)),
        Script("retry workflow", (_retrying_workflow(workflow),)),
    ]
    _, refused = interleaver.run(scripts, (0, 1, 0, 1), lambda: None)
    assert refused.error is not None
    assert refused.error.sqlstate == "JF005"
    assert (state_of(conn, TENANT_A, job), count(conn, "jobs")) == ("queued", 1)


def test_a_retry_with_another_payload_and_a_retry_of_the_dead_parent_do_not_deadlock(
    conn: Connection, interleaver: Interleaver
) -> None:
    nodes = [_node("parent"), _node("child", after=["parent"], on_parent_failure="run")]
    _, [parent, child] = _dead_workflow(conn, nodes)
    _run(interleaver, _retrying(child, payload={}), _retrying(parent), _hold("workflows"))
    assert state_of(conn, TENANT_A, parent) == "queued"
    assert state_of(conn, TENANT_A, child) == "canceled"


def test_a_retry_of_a_workflow_that_retention_is_about_to_delete_does_not_deadlock(
    conn: Connection, interleaver: Interleaver
) -> None:
    workflow, _ = _dead_workflow(conn, ["only"])
    _run(interleaver, _retrying_workflow(workflow), _sweep, _hold("workflow_jobs"))
    assert _state(conn, workflow) == "running"


def test_a_retry_of_a_workflow_that_retention_has_deleted_in_the_meantime_is_not_found(
    conn: Connection, interleaver: Interleaver
) -> None:
    workflow, [job] = _dead_workflow(conn, ["only"])
    scripts = [
        Script("sweep", (_sweep,)),
        Script("retry", (_retrying_workflow(workflow),)),
    ]
    _, refused = interleaver.run(scripts, (0, 1, 0, 1), lambda: None)
    assert refused.error is not None
    assert refused.error.sqlstate == "JF004"
    assert (state_of(conn, TENANT_A, job), count(conn, "jobs")) == ("dead", 1)


def test_retries_of_a_workflow_and_of_its_outer_one_create_each_job_once(
    conn: Connection, interleaver: Interleaver
) -> None:
    inner = {"name": "inner", "workflow": {"nodes": [_node("only")]}}
    rows = call(conn, "enqueue_workflow", workflow={"nodes": [inner]}, tenant_id=TENANT_A)
    outer = rows[0]["workflow_id"]
    call(conn, "cancel_workflow", id=outer, tenant_id=TENANT_A)
    [row] = conn.execute("select id from jobforge.workflows where parent_id is not null").fetchall()
    scripts = [
        Script("inner", (_retrying_workflow(row["id"]),)),
        Script("outer", (_retrying_workflow(outer),)),
    ]
    _, refused = interleaver.run(scripts, (0, 1, 0, 1), lambda: None)
    assert refused.error is not None
    assert refused.error.sqlstate == "JF005"
    assert count(conn, "jobs") == 1


def test_retention_that_cancels_a_job_and_a_cancel_of_its_child_do_not_deadlock(
    conn: Connection, interleaver: Interleaver
) -> None:
    """The job whose parent is past retention is newer than the job that waits for it."""
    child, between, orphan = _orphan_with_an_older_child(conn)
    _run(
        interleaver,
        lambda session: call(
            session, "cancel_jobs", filter={"state": "blocked"}, tenant_id=TENANT_A
        ),
        _sweep,
        lambda session: session.execute(
            "select from jobforge.jobs where id = %s for update", [between]
        ),
    )
    for job in (child, between, orphan):
        assert state_of(conn, TENANT_A, job) == "canceled"


def test_retention_cancels_a_job_although_another_one_is_locked(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    held, _, orphan = _orphan_with_an_older_child(conn)
    other = _orphan(conn)
    holding = connect(autocommit=False)
    holding.execute("select from jobforge.jobs where id = %s for update", [held])
    _sweep(conn)
    assert state_of(conn, TENANT_A, other) == "canceled"
    assert state_of(conn, TENANT_A, orphan) == "blocked"
    holding.rollback()
    _sweep(conn)
    assert state_of(conn, TENANT_A, orphan) == "canceled"


def _run(interleaver: Interleaver, one: Action, other: Action, hold: Action) -> list[Outcome]:
    scripts = [Script("one", (one,)), Script("other", (other,)), Script("hold", (hold,))]
    outcomes = interleaver.run(scripts, HELD_UP, lambda: None)
    for outcome in outcomes:
        assert outcome.error is None, (outcome.script.name, outcome.error)
    return outcomes


def _dead_workflow(conn: Connection, nodes: list[str] | list[Json]) -> tuple[UUID, list[UUID]]:
    """Create a failed workflow whose jobs are all dead, and return both."""
    made = [_node(node) if isinstance(node, str) else node for node in nodes]
    rows = call(conn, "enqueue_workflow", workflow={"nodes": made}, tenant_id=TENANT_A)
    worker = new_worker()
    while held := claim(conn, worker, limit=10):
        complete(conn, worker, held, "failed", final=True)
    return rows[0]["workflow_id"], [row["job_id"] for row in rows if row["job_id"]]


def _orphan(conn: Connection) -> UUID:
    """Create a blocked job whose parent is deleted."""
    parent = enqueue_one(conn, delay_s=3600)
    orphan = enqueue_one(conn, after=[str(parent)])
    conn.execute("delete from jobforge.jobs where id = %s", [parent])
    return orphan


def _orphan_with_an_older_child(conn: Connection) -> tuple[UUID, UUID, UUID]:
    """Return the child, a blocked job between the two in age, and the orphan."""
    parent = enqueue_one(conn, delay_s=3600)
    child, between = (enqueue_one(conn, after=[str(parent)]) for _ in range(2))
    orphan = _orphan(conn)
    # Simulates a retry that replaced an older parent by the orphan.
    conn.execute(
        "insert into jobforge.awaited_jobs (tenant_id, waiter_id, job_id, is_within,"
        " on_parent_failure) values (%s, %s, %s, false, 'cancel')",
        [TENANT_A, child, orphan],
    )
    conn.execute("update jobforge.jobs set flags = flags | 2 where id = %s", [orphan])
    return child, between, orphan


def _state(conn: Connection, workflow: UUID) -> str:
    [row] = conn.execute("select state from jobforge.workflows where id = %s", [workflow])
    return str(row["state"])


def _node(name: str, **fields: Json) -> Json:
    return {"name": name, "definition": "test", **fields}


def _retrying_workflow(workflow: UUID) -> Action:
    return lambda conn: call(conn, "retry_workflow", id=workflow, tenant_id=TENANT_A)


def _retrying(job: UUID, **arguments: Json) -> Action:
    return lambda conn: call_for_value(
        conn, "retry_job", job_id=job, **arguments, tenant_id=TENANT_A
    )


def _sweep(conn: Connection) -> None:
    conn.execute(
        "select jobforge_private.sweep_workflows(clock_timestamp() + interval '1 day',"
        " clock_timestamp() + interval '1 day', 100)"
    )


def _hold(table: str) -> Action:
    return lambda conn: conn.execute(f"select from jobforge.{table} for update".encode())
