"""Workflows: created in one call, finished with their last job, canceled and retried as a whole."""

from uuid import UUID

import pytest
from cluster import Clock, Connection
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
    erase,
    job_of,
    new_worker,
    refused,
    state_of,
)


@pytest.fixture
def jobs(conn: Connection) -> Connection:
    definition(conn, max_attempts=1)
    return conn


def node(name: str, *after: str, **fields: Json) -> Json:
    return {"name": name, "definition": "test", "after": list(after), **fields}


def workflow(conn: Connection, *nodes: Json, **fields: Json) -> tuple[UUID, dict[str, UUID]]:
    """Return its ID, and its jobs by the paths of their nodes."""
    rows = call(
        conn, "enqueue_workflow", workflow={"nodes": list(nodes), **fields}, tenant_id=TENANT_A
    )
    return rows[0]["workflow_id"], {row["node"]: row["job_id"] for row in rows if row["job_id"]}


def run(conn: Connection, *jobs: UUID, outcome: str = "succeeded", **fields: Json) -> None:
    """Run each of these jobs alone, and end it."""
    conn.execute("update jobforge.jobs set priority = 0 where priority = 9")
    conn.execute("update jobforge.jobs set priority = 9 where id = any(%s)", [list(jobs)])
    worker = new_worker()
    rows = claim(conn, worker, limit=len(jobs))
    assert {row["job_id"] for row in rows} == set(jobs)
    complete(conn, worker, rows, outcome, **fields)


def shown(conn: Connection, workflow_id: UUID) -> Row:
    [row] = call(conn, "get_workflow", id=workflow_id, tenant_id=TENANT_A)
    return row


def states(conn: Connection, workflow_id: UUID) -> dict[str, str]:
    return {each["node"]: each["state"] for each in shown(conn, workflow_id)["nodes"]}


def test_a_diamond_runs_in_order_and_finishes_with_its_last_node(jobs: Connection) -> None:
    wf, ids = workflow(
        jobs, node("a"), node("b", "a"), node("c", "a"), node("d", "b", "c"), name="diamond"
    )
    assert states(jobs, wf) == {"a": "queued", "b": "blocked", "c": "blocked", "d": "blocked"}
    run(jobs, ids["a"])
    run(jobs, ids["b"], ids["c"])
    assert shown(jobs, wf)["workflow"]["state"] == "running"
    run(jobs, ids["d"], result={"sum": 3})
    document = shown(jobs, wf)
    assert document["workflow"]["state"] == "succeeded"
    assert document["workflow"]["counts"] == {"succeeded": 4}
    assert document["workflow"]["result"] == {"d": {"sum": 3}}
    assert document["edges"] == [["a", "b"], ["a", "c"], ["b", "d"], ["c", "d"]]


def test_a_dead_node_fails_the_workflow_once_the_rest_has_finished(jobs: Connection) -> None:
    wf, ids = workflow(jobs, node("a"), node("b"), node("c", "a", "b"))
    run(jobs, ids["a"], outcome="failed")
    assert states(jobs, wf) == {"a": "dead", "b": "queued", "c": "canceled"}
    assert shown(jobs, wf)["workflow"]["state"] == "running"
    run(jobs, ids["b"])
    assert shown(jobs, wf)["workflow"]["state"] == "failed"


def test_a_cycle_is_refused_with_its_path(jobs: Connection) -> None:
    with refused("JF002", cycle=["b", "c", "d", "b"]):
        workflow(jobs, node("a"), node("b", "a", "d"), node("c", "b"), node("d", "c"))


def test_successors_of_an_inner_workflow_wait_for_its_last_nodes(jobs: Connection) -> None:
    inner = {"nodes": [node("x"), node("y", "x"), node("z", "x")]}
    wf, ids = workflow(
        jobs,
        node("a"),
        {"name": "inner", "after": ["a"], "workflow": inner},
        node("b", "inner"),
    )
    assert list(ids) == ["a", "inner/x", "inner/y", "inner/z", "b"]
    run(jobs, ids["a"])
    run(jobs, ids["inner/x"])
    run(jobs, ids["inner/y"])
    assert states(jobs, wf)["b"] == "blocked"
    run(jobs, ids["inner/z"])
    run(jobs, ids["b"])
    assert shown(jobs, wf)["workflow"]["state"] == "succeeded"


def test_a_retry_runs_the_nodes_again_that_did_not_succeed(jobs: Connection) -> None:
    wf, ids = workflow(jobs, node("a"), node("b", "a"), node("c", "b"))
    run(jobs, ids["a"])
    run(jobs, ids["b"], outcome="failed")
    assert call_for_value(jobs, "retry_workflow", id=wf, tenant_id=TENANT_A) == 2
    assert states(jobs, wf) == {"a": "succeeded", "b": "queued", "c": "blocked"}
    fresh = {each["node"]: UUID(each["job_id"]) for each in shown(jobs, wf)["nodes"]}
    assert job_of(jobs, TENANT_A, fresh["b"])["retry_of"] == ids["b"]
    run(jobs, fresh["b"])
    run(jobs, fresh["c"])
    assert shown(jobs, wf)["workflow"]["state"] == "succeeded"


def test_a_canceled_workflow_asks_its_running_jobs_to_stop(jobs: Connection) -> None:
    wf, _ = workflow(jobs, node("a"), node("b"), node("c", "a", "b"))
    worker = new_worker()
    rows = claim(jobs, worker)
    assert call_for_value(jobs, "cancel_workflow", id=wf, tenant_id=TENANT_A) == "canceling"
    assert sorted(states(jobs, wf).values()) == ["canceled", "canceled", "canceling"]
    complete(jobs, worker, rows, "canceled")
    assert shown(jobs, wf)["workflow"]["state"] == "canceled"


def test_a_batch_calls_back_once_when_its_last_job_has_finished(jobs: Connection) -> None:
    definition(jobs, "done")
    rows = call(
        jobs,
        "create_batch",
        batch={"on_success": {"definition": "done", "payload": {"n": 1}}, "open": True},
        jobs=[{"definition": "test"}, {"definition": "test"}],
        tenant_id=TENANT_A,
    )
    batch = rows[0]["batch_id"]
    run(jobs, *(row["job_id"] for row in rows if row["job_id"]))
    more = call(jobs, "add_to_batch", id=batch, jobs=[{"definition": "test"}], tenant_id=TENANT_A)
    assert call_for_value(jobs, "close_batch", id=batch, tenant_id=TENANT_A) == "running"
    run(jobs, more[0]["job_id"])
    [row] = call(jobs, "get_batch", id=batch, tenant_id=TENANT_A)
    assert row["batch"]["state"] == "succeeded"
    [callback] = jobs.execute("select * from jobforge.jobs where definition = 'done'").fetchall()
    assert callback["payload"] == {"n": 1}


def test_a_revived_job_reopens_its_batch_and_its_success_calls_back(jobs: Connection) -> None:
    definition(jobs, "good")
    definition(jobs, "bad")
    callbacks = {"on_success": {"definition": "good"}, "on_failure": {"definition": "bad"}}
    rows = call(
        jobs, "create_batch", batch=callbacks, jobs=[{"definition": "test"}], tenant_id=TENANT_A
    )
    [job] = [row["job_id"] for row in rows if row["job_id"]]
    run(jobs, job, outcome="failed")
    assert called(jobs) == ["bad"]
    call(jobs, "retry_job", job_id=job, tenant_id=TENANT_A)
    [row] = call(jobs, "get_batch", id=rows[0]["batch_id"], tenant_id=TENANT_A)
    assert row["batch"]["state"] == "running"
    run(jobs, job)
    assert called(jobs) == ["bad", "good"]


def called(conn: Connection) -> list[str]:
    rows = conn.execute("select definition from jobforge.jobs where source = 'system' order by id")
    return [row["definition"] for row in rows]


def test_many_parents_release_one_child_and_one_parent_many(jobs: Connection) -> None:
    middle = [node(f"n{n}", "first") for n in range(300)]
    last = node("last", *(each["name"] for each in middle))
    wf, ids = workflow(jobs, node("first"), *middle, last)
    run(jobs, ids["first"])
    assert shown(jobs, wf)["workflow"]["counts"]["queued"] == 300
    worker = new_worker()
    while rows := claim(jobs, worker, limit=70):
        assert states(jobs, wf)["last"] in {"blocked", "running"}
        complete(jobs, worker, rows)
    assert shown(jobs, wf)["workflow"]["counts"] == {"succeeded": 302}
    assert shown(jobs, wf)["workflow"]["state"] == "succeeded"


def test_a_retry_from_a_node_leaves_history_unchanged(jobs: Connection) -> None:
    wf, ids = workflow(jobs, node("a"), node("b", "a"), node("c", "b"))
    for name in "abc":
        run(jobs, ids[name], result={"by": name})
    before = {name: job_of(jobs, TENANT_A, job) for name, job in ids.items()}
    assert call_for_value(jobs, "retry_workflow", id=wf, **{"from": "b"}, tenant_id=TENANT_A) == 2
    assert states(jobs, wf) == {"a": "succeeded", "b": "queued", "c": "blocked"}
    assert {name: job_of(jobs, TENANT_A, job) for name, job in ids.items()} == before
    with refused("JF005", node="b"):
        call(jobs, "retry_workflow", id=wf, **{"from": "b"}, tenant_id=TENANT_A)
    with refused("JF004", node="z"):
        call(jobs, "retry_workflow", id=wf, **{"from": "z"}, tenant_id=TENANT_A)


def test_cancel_and_retry_apply_to_both_levels(jobs: Connection) -> None:
    inner = {"nodes": [node("x"), node("y", "x")]}
    wf, ids = workflow(jobs, {"name": "in", "workflow": inner}, node("b", "in"))
    run(jobs, ids["in/x"])
    assert call_for_value(jobs, "cancel_workflow", id=wf, tenant_id=TENANT_A) == "canceled"
    assert states(jobs, wf) == {"in/x": "succeeded", "in/y": "canceled", "b": "canceled"}
    [within] = jobs.execute(
        "select id, state from jobforge.workflows where parent_id = %s", [wf]
    ).fetchall()
    assert within["state"] == "canceled"
    assert call_for_value(jobs, "retry_workflow", id=within["id"], tenant_id=TENANT_A) == 2
    fresh = {each["node"]: UUID(each["job_id"]) for each in shown(jobs, wf)["nodes"]}
    run(jobs, fresh["in/y"], result="done")
    run(jobs, fresh["b"])
    assert shown(jobs, wf)["workflow"]["state"] == "succeeded"
    assert shown(jobs, within["id"])["workflow"]["result"] == {"y": "done"}


def test_a_node_is_not_retried_before_its_parents(jobs: Connection) -> None:
    workflow_id, made = workflow(jobs, node("a"), node("b", "a"))
    call(jobs, "cancel_job", job_id=made["a"], tenant_id=TENANT_A)
    with refused("JF005", job_id=str(made["a"])):
        call(jobs, "retry_job", job_id=made["b"], tenant_id=TENANT_A)
    assert shown(jobs, workflow_id)["workflow"]["state"] == "canceled"
    call(jobs, "retry_job", job_id=made["a"], tenant_id=TENANT_A)
    call(jobs, "retry_job", job_id=made["b"], tenant_id=TENANT_A)
    assert states(jobs, workflow_id) == {"a": "queued", "b": "blocked"}


def test_a_lost_lease_adds_no_nodes(jobs: Connection) -> None:
    wf, ids = workflow(jobs, node("a"), node("b", "a"))
    worker = new_worker()
    [row] = claim(jobs, worker)
    more = [{"name": "c", "definition": "test"}]
    token = {"worker_id": worker, "job_id": ids["a"], "tenant_id": TENANT_A}
    with refused("JF003"):
        call(jobs, "add_workflow_jobs", **token, lease=row["lease"] - 1, nodes=more)
    [added] = call(jobs, "add_workflow_jobs", **token, lease=row["lease"], nodes=more)
    assert call(jobs, "add_workflow_jobs", **token, lease=row["lease"], nodes=more) == [added]
    complete(jobs, worker, [row])
    assert states(jobs, wf) == {"a": "succeeded", "b": "blocked", "c": "queued"}
    run(jobs, added["job_id"])
    assert states(jobs, wf)["b"] == "queued"


def test_retention_deletes_finished_workflows_and_leaves_no_job_blocked_forever(
    jobs: Connection, clock: Clock
) -> None:
    wf, ids = workflow(jobs, node("a"), node("b", "a"))
    run(jobs, ids["a"])
    run(jobs, ids["b"])
    parent = enqueue_one(jobs)
    waiting = enqueue_one(jobs, after=[str(parent)], on_parent_failure="wait")
    call(jobs, "cancel_job", job_id=parent, tenant_id=TENANT_A)
    call(jobs, "ensure_partitions", days=20)
    clock.travel(days=16)
    for _ in range(2):
        call(jobs, "apply_retention")
    assert state_of(jobs, TENANT_A, waiting) == "canceled"
    for table in ("workflows", "workflow_jobs", "dependencies", "awaited_jobs"):
        assert count(jobs, table) == 0, table
    with refused("JF004"):
        shown(jobs, wf)


def test_retention_reports_that_more_edges_are_left(jobs: Connection, clock: Clock) -> None:
    """The caller then continues: more edges are added within an hour than one call deletes."""
    wf, _ = workflow(jobs, node("a"), *(node(f"b{n}", "a") for n in range(3)))
    call(jobs, "cancel_workflow", id=wf, tenant_id=TENANT_A)
    assert set(states(jobs, wf).values()) == {"canceled"}
    clock.travel(days=16)
    gone = [call_for_value(jobs, "apply_retention", limit=2)["dependencies"] for _ in range(3)]
    assert gone[0] >= 2
    assert (gone[-1], count(jobs, "dependencies"), count(jobs, "awaited_jobs")) == (0, 0, 0)


def test_a_clock_that_is_set_back_hides_no_completion(jobs: Connection, clock: Clock) -> None:
    workflow_id, made = workflow(jobs, node("a"))
    clock.travel(seconds=-5)
    call(jobs, "cancel_job", job_id=made["a"], tenant_id=TENANT_A)
    assert states(jobs, workflow_id) == {"a": "canceled"}
    assert shown(jobs, workflow_id)["workflow"]["state"] == "canceled"


def test_delete_tenant_deletes_workflows(jobs: Connection) -> None:
    workflow(jobs, node("a"), node("b", "a"))
    erase(jobs)
    assert [count(jobs, table) for table in ("workflows", "workflow_jobs", "dependencies")] == [
        0,
        0,
        0,
    ]
