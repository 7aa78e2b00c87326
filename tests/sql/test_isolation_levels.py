"""Which functions work outside READ COMMITTED, and that the other functions refuse.

Every public function is in one of two lists. Each is called with valid arguments in a transaction
of each isolation level. A function that ends, frees, links or cancels jobs waits for row locks and
then reads rows that other sessions have committed; a transaction with an older snapshot would
overlook these rows, so such a function must refuse.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import psycopg
import pytest
from cluster import Connect, Connection, connect_to, fresh_database
from psycopg import sql
from sql.attack_arguments import GENERATORS, Function, Value, functions
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    call,
    claim,
    complete,
    definition,
    enqueue_one,
    job_of,
    new_worker,
    refused,
    state_of,
    succeed,
)
from sql.mutation import mutate
from sql.planted_tenants import Planted, plant

from jobforge.db.schema_files import function_files
from jobforge.embedded import PostgresServer

LEVELS = ("repeatable read", "serializable")
DOCS = Path(__file__).parents[2] / "docs"

# These functions end, free, link or cancel jobs, or report on leases.
REFUSES = {
    "add_workflow_jobs",
    "advance_operations",
    "apply_retention",
    "bind_login",
    "cancel_batch",
    "cancel_job",
    "cancel_jobs",
    "cancel_workflow",
    "claim_jobs",
    "claim_readable_jobs",
    "close_batch",
    "complete_job",
    "complete_jobs",
    "delete_tenant",
    "free_blocked_jobs",
    "heartbeat_job",
    "heartbeat_jobs",
    "pending_events",
    "reap_jobs",
    "record_deliveries",
    "record_firings",
    "redeliver",
    "release_jobs",
    "retry_job",
    "retry_jobs",
    "retry_workflow",
    "succeed_jobs",
}
# These functions work at all levels, but refuse jobs whose parents another call enqueued (`after`).
WORKS_WITHOUT_PARENTS = {
    "add_to_batch",
    "create_batch",
    "enqueue_children",
    "enqueue_job",
    "enqueue_jobs",
    "enqueue_jobs_once",
}
WORKS = WORKS_WITHOUT_PARENTS | {
    "access_faults",
    "annotate_failure",
    "backfill_trigger",
    "cancel_operation",
    "confirm_erasure",
    "count_jobs",
    "count_states",
    "create_api_key",
    "create_connector_config",
    "create_trigger",
    "create_webhook",
    "declare_triggers",
    "delete_connector_config",
    "delete_trigger",
    "delete_webhook",
    "drain_worker",
    "due_schedules",
    "edit_connector_config",
    "edit_job",
    "edit_trigger",
    "edit_webhook",
    "emit_event",
    "end_session",
    "enqueue_payloads",
    "enqueue_workflow",
    "ensure_partitions",
    "erase_job",
    "explain_job",
    "find_api_key",
    "find_tenant",
    "find_problems",
    "find_unreadable",
    "find_worker",
    "get_batch",
    "get_connector_config",
    "get_definition",
    "get_event",
    "get_job",
    "get_operation",
    "get_statistics",
    "get_trigger",
    "get_webhook",
    "get_workflow",
    "is_session_ended",
    "keep_tenant_key",
    "list_api_keys",
    "list_artifact_stores",
    "list_audit",
    "list_batches",
    "list_connector_configs",
    "list_bound_logins",
    "list_definitions",
    "list_deliveries",
    "list_event_deliveries",
    "list_events",
    "list_failures",
    "list_firings",
    "list_holders",
    "list_jobs",
    "list_migrations",
    "list_missed_firings",
    "list_notes",
    "list_operations",
    "list_queues",
    "list_steps",
    "list_tenant_keys",
    "list_tenants",
    "list_triggers",
    "list_webhooks",
    "list_workers",
    "list_workflows",
    "load_parents",
    "load_steps",
    "meter_tenants",
    "note_access",
    "note_jobs",
    "next_erasure",
    "open_connector_config",
    "open_delivery",
    "override_definition",
    "pause_definition",
    "pause_queue",
    "pause_tenant",
    "pre_request",
    "put_definition",
    "put_queue",
    "put_tenant",
    "read_gauges",
    "read_stream",
    "record_delivery",
    "regate_jobs",
    "record_artifact_store",
    "register_worker",
    "replay_event",
    "reschedule_job",
    "resume_definition",
    "resume_queue",
    "resume_tenant",
    "revoke_api_key",
    "rewrap_tenant_key",
    "roll_up_statistics",
    "rotate_api_key",
    "rotate_webhook",
    "run_trigger",
    "save_steps",
    "start_artifact_sweep",
    "start_maintenance",
    "start_operation",
    "stop_worker",
    "summarize",
    "take_request",
    "tenant",
    "test_webhook",
    "touch_api_key",
    "unbind_login",
    "unregister_worker",
    "unused_artifacts",
}

# Functions that need a later statement to see what another transaction has committed.
RELY_ON_LATER_STATEMENTS = {
    "advance_workflow",
    "cancel_rows",
    "unblock_jobs",
    "lock_parents",
    "lock_jobs",
    "release_dependents",
    "resume_waits",
    "reopen_workflows",
}
# Functions that call them only with rows that the same call has inserted.
ONLY_WITH_OWN_ROWS = {"create_batch"}


class World(NamedTuple):
    conn: Connection
    own: Planted
    other: Planted
    functions: dict[str, Function]
    special: dict[str, dict[str, Value]]


@pytest.fixture(scope="module")
def world(server: PostgresServer) -> Iterator[World]:
    """A database in which each of the following calls is rolled back."""
    with fresh_database(server) as database, connect_to(database.url) as conn:
        own, other = plant(conn, TENANT_A, "amberword"), plant(conn, TENANT_B, "birchword")
        public = _public(conn)
        by_name = {f.name: f for f in functions(conn) if f.name in public}
        yield World(conn, own, other, by_name, _special(conn, own))


def test_every_public_function_is_in_a_list(world: World) -> None:
    assert REFUSES.isdisjoint(WORKS)
    assert set(world.functions) == REFUSES | WORKS


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", sorted(REFUSES))
def test_a_function_that_changes_dependencies_refuses(world: World, name: str, level: str) -> None:
    assert _code(world, name, "read committed") is None
    assert _code(world, name, level) == "JF012"


@pytest.mark.parametrize("name", sorted(WORKS))
def test_the_other_functions_work_at_all_levels(world: World, name: str) -> None:
    codes = {level: _code(world, name, level) for level in ("read committed", *LEVELS)}
    assert codes == dict.fromkeys(codes, None)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", sorted(WORKS_WITHOUT_PARENTS))
def test_a_job_with_a_parent_of_another_call_is_refused(
    world: World, name: str, level: str
) -> None:
    assert _code(world, name, "read committed", has_parent=True) is None
    assert _code(world, name, level, has_parent=True) == "JF012"


def test_the_refusal_names_the_function_and_the_level_and_says_how_to_fix_it(
    conn: Connection,
) -> None:
    with conn.transaction(force_rollback=True):
        conn.execute("set transaction isolation level serializable")
        with pytest.raises(psycopg.Error) as caught:
            call(conn, "cancel_job", job_id=UUID(int=1), tenant_id=TENANT_A)
    said = caught.value.diag
    assert said.message_primary == (
        "cancel_job requires a READ COMMITTED transaction; this one is SERIALIZABLE"
    )
    assert "BEGIN ISOLATION LEVEL READ COMMITTED" in (said.message_hint or "")


def test_read_uncommitted_is_read_committed(conn: Connection) -> None:
    with conn.transaction():
        conn.execute("set transaction isolation level read uncommitted")
        assert call(conn, "reap_jobs") == []


def test_functions_that_rely_on_later_statements_are_called_only_behind_a_check(
    world: World,
) -> None:
    sources = {path.stem: re.sub(r"--.*", "", path.read_text()) for path in function_files()}
    calls = {
        name: set(re.findall(r"jobforge(?:_private)?\.(\w+)\(", source)) & set(sources) - {name}
        for name, source in sources.items()
    }
    checks = {"claim_jobs"} | {
        name for name, called in calls.items() if "require_read_committed" in called
    }
    unchecked = {
        name
        for name in world.functions
        if name not in checks and _reached(name, calls, checks) & RELY_ON_LATER_STATEMENTS
    }
    assert unchecked == ONLY_WITH_OWN_ROWS
    assert checks - {"check_claim", "link_parents"} == REFUSES


def test_the_documentation_lists_the_functions_that_refuse() -> None:
    page = (DOCS / "sql.md").read_text()
    [section] = re.findall(r"## Isolation levels\n(.*?)\n## ", page, re.DOTALL)
    refuses, with_parents = re.findall(r"^\| the call fails.*$", section, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", refuses)) == REFUSES
    assert set(re.findall(r"`(\w+)`", with_parents)) == WORKS_WITHOUT_PARENTS | {"after"}


@pytest.mark.parametrize("level", LEVELS)
def test_a_child_is_freed_although_its_parents_end_during_an_older_snapshot(
    conn: Connection, connect: Connect, level: str
) -> None:
    definition(conn)
    worker = new_worker()
    enqueue_one(conn)
    [held] = claim(conn, worker)
    other = enqueue_one(conn, delay_s=3600)
    child = enqueue_one(conn, after=[str(held["job_id"]), str(other)], on_parent_failure="run")
    application = connect(autocommit=False)
    application.execute(f"set transaction isolation level {level}".encode())
    application.execute("select 1 from jobforge.jobs")  # takes the snapshot
    succeed(conn, worker, [held])
    with refused("JF012"):
        call(application, "cancel_job", job_id=other, tenant_id=TENANT_A)
    application.rollback()
    call(application, "cancel_job", job_id=other, tenant_id=TENANT_A)
    application.commit()
    assert state_of(conn, TENANT_A, child) == "queued"


def test_without_the_check_that_child_stays_blocked(server: PostgresServer) -> None:
    with fresh_database(server) as own, connect_to(own.url) as conn:
        mutate(conn, "require_read_committed", "in ('repeatable read', 'serializable')", "= ''")
        definition(conn)
        worker = new_worker()
        enqueue_one(conn)
        [held] = claim(conn, worker)
        other = enqueue_one(conn, delay_s=3600)
        child = enqueue_one(conn, after=[str(held["job_id"]), str(other)], on_parent_failure="run")
        with connect_to(own.url, autocommit=False) as application:
            application.execute("set transaction isolation level repeatable read")
            application.execute("select 1 from jobforge.jobs")
            succeed(conn, worker, [held])
            call(application, "cancel_job", job_id=other, tenant_id=TENANT_A)
        assert state_of(conn, TENANT_A, child) == "blocked"


@pytest.mark.parametrize("level", LEVELS)
def test_a_workflow_enqueued_outside_read_committed_runs_in_its_order(
    conn: Connection, connect: Connect, level: str
) -> None:
    definition(conn)
    application = connect(autocommit=False)
    application.execute(f"set transaction isolation level {level}".encode())
    nodes = [
        {"name": "first", "definition": "test"},
        {"name": "second", "definition": "test", "after": ["first"]},
    ]
    rows = call(application, "enqueue_workflow", workflow={"nodes": nodes}, tenant_id=TENANT_A)
    application.commit()
    jobs = {row["node"]: row["job_id"] for row in rows}
    worker = new_worker()
    for name in ("first", "second"):
        [held] = claim(conn, worker, limit=2)
        assert held["job_id"] == jobs[name]
        succeed(conn, worker, [held])
    workflow = rows[0]["workflow_id"]
    [row] = call(conn, "get_workflow", id=workflow, tenant_id=TENANT_A)
    assert row["workflow"]["state"] == "succeeded"


def test_an_edit_with_an_older_snapshot_fails_instead_of_overwriting(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    job = enqueue_one(conn)
    application = connect(autocommit=False)
    application.execute("set transaction isolation level repeatable read")
    application.execute("select 1 from jobforge.jobs")
    [held] = claim(conn, new_worker())
    with refused("40001"):
        call(application, "edit_job", job_id=job, changes={"priority": 9}, tenant_id=TENANT_A)
    assert job_of(conn, TENANT_A, job)["lease"] == held["lease"]


def _public(conn: Connection) -> set[str]:
    rows = conn.execute(
        """
        select p.proname as name
          from pg_proc as p
         where p.pronamespace = 'jobforge'::regnamespace
           and exists (select from unnest('{client,service,worker,admin,server}'::text[]) as r(role)
                        where has_function_privilege('jobforge_' || r.role, p.oid, 'execute'))
        """
    )
    return {row["name"] for row in rows}


def _reached(name: str, calls: dict[str, set[str]], checks: set[str]) -> set[str]:
    """Return the functions that a function calls, directly or through others, up to those that
    check the level."""
    found: set[str] = set()
    open_ = [name]
    while open_:
        for called in calls[open_.pop()] - found:
            found.add(called)
            if called not in checks:
                open_.append(called)
    return found


def _code(world: World, name: str, level: str, *, has_parent: bool = False) -> str | None:
    """Return the SQLSTATE of a call in a transaction of that level; None when it succeeds."""
    given = _arguments(world, world.functions[name])
    if has_parent:
        given |= _parents(world, name)
    types = {p.name: p.type for p in world.functions[name].parameters}
    arguments = sql.SQL(", ").join(
        sql.SQL("{} => {}::{}").format(sql.Identifier(p), sql.Placeholder(), sql.SQL(types[p]))
        for p in given
    )
    query = sql.SQL("select * from jobforge.{}({})").format(sql.Identifier(name), arguments)
    try:
        with world.conn.transaction(force_rollback=True):
            world.conn.execute(f"set transaction isolation level {level}".encode())
            world.conn.execute(query, list(given.values()))
    except psycopg.Error as error:
        return error.sqlstate
    return None


def _arguments(world: World, function: Function) -> dict[str, Value]:
    """Return valid arguments; parameters without a known value have defaults and are omitted."""
    given = {
        parameter.name: make(world.own, world.other).own
        for parameter in function.parameters
        if (make := GENERATORS.get(f"{function.name}: {parameter}", GENERATORS.get(str(parameter))))
    }
    return given | world.special.get(function.name, {})


def _special(conn: Connection, own: Planted) -> dict[str, dict[str, Value]]:
    """Return arguments for the functions that the generated arguments do not suit."""
    worker: Value = str(own.worker)
    call(conn, "register_worker", worker_id=own.worker, queues=["default"], slots=1)
    call(conn, "bind_login", login="bound_client_login", tenants=[own.tenant])
    held = _running_node(conn, own)
    running: dict[str, Value] = {"p_job_id": str(own.jobs["running"])}
    return {
        "add_workflow_jobs": {
            "p_job_id": str(held["job_id"]),
            "p_lease": str(held["lease"]),
            "p_nodes": '[{"name": "next", "definition": "planted"}]',
        },
        "bind_login": {"p_tenants": f"{{{own.tenant}}}"},
        "cancel_job": {"p_job_id": str(own.jobs["queued"])},
        "complete_job": running,
        "drain_worker": {"p_worker_id": worker},
        "enqueue_children": running,
        "erase_job": {"p_job_id": str(own.jobs["dead"])},
        "find_worker": {"p_worker_id": _worker_of_a_key(conn), "p_owner": "key"},
        "heartbeat_job": running,
        "list_holders": {"p_queue": "default"},
        "load_parents": running,
        "load_steps": running,
        "override_definition": {"p_key": "planted", "p_overrides": "{}"},
        "pause_queue": {"p_queue": "default"},
        "put_queue": {"p_queue": "default"},
        "redeliver": {"p_delivery_id": _failed_delivery(conn, own)},
        "register_worker": {"p_queues": "{default}", "p_slots": "1"},
        "resume_queue": {"p_queue": "default"},
        "retry_job": {"p_job_id": str(own.jobs["dead"])},
        "retry_workflow": {"p_id": _failed_workflow(conn, own)},
        "revoke_api_key": {"p_id": str(own.key)},
        "rotate_api_key": {"p_id": str(own.key)},
        "stop_worker": {"p_worker_id": worker},
        "succeed_jobs": {
            "p_tenants": f"{{{own.tenant}}}",
            "p_jobs": f"{{{own.jobs['running']}}}",
            "p_leases": f"{{{own.leases['running']}}}",
        },
        "take_request": {"p_bucket": "test", "p_rate": "1", "p_burst": "1"},
    }


def _worker_of_a_key(conn: Connection) -> Value:
    """Return a worker that has registered through a server."""
    worker = new_worker()
    call(conn, "register_worker", worker_id=worker, queues=["default"], slots=1)
    conn.execute("update jobforge.workers set owner = 'key' where id = %s", [worker])
    return str(worker)


def _running_node(conn: Connection, own: Planted) -> Row:
    """Return the only job of a workflow, running."""
    nodes = [{"name": "only", "definition": "planted", "queue": "nodes"}]
    call(conn, "enqueue_workflow", workflow={"nodes": nodes}, tenant_id=own.tenant)
    [held] = claim(conn, own.worker, "nodes")
    return held


def _failed_workflow(conn: Connection, own: Planted) -> Value:
    held = _running_node(conn, own)
    complete(conn, own.worker, [held], "failed", final=True)
    [row] = conn.execute(
        "select workflow_id from jobforge.workflow_jobs where job_id = %s", [held["job_id"]]
    ).fetchall()
    return str(row["workflow_id"])


def _failed_delivery(conn: Connection, own: Planted) -> Value:
    [held] = claim(conn, own.worker, "connectors", tenants=[own.tenant])
    complete(conn, own.worker, [held], "failed", final=True)
    return str(own.things["delivery"])


def _parents(world: World, name: str) -> dict[str, Value]:
    """Return arguments for a job that waits for a running one."""
    after = [str(world.own.jobs["running"])]
    if name == "enqueue_job":
        return {"p_options": json.dumps({"after": after})}
    return {"p_jobs": json.dumps([{"definition": "planted", "after": after}])}
