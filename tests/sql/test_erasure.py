"""The erasure of a tenant: what it stops, how it proceeds, and what is left at the end."""

from contextlib import closing
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Connect, Connection, Database, connect_to
from psycopg import sql
from sql.background_call import in_background
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    as_tenant,
    call,
    call_for_value,
    claim,
    complete,
    count,
    definition,
    enqueue,
    enqueue_one,
    erase,
    erased_rows,
    erasure_step,
    heartbeat,
    new_worker,
    note,
    refused,
    state_of,
    succeed,
)

# The remains of an erased tenant: its mark and the operation that erased it.
LEFT = {"tenants", "operations"}


def begin(conn: Connection, tenant: UUID = TENANT_A) -> UUID:
    operation = call_for_value(conn, "delete_tenant", tenant_id=tenant)
    assert isinstance(operation, UUID)
    return operation


def advance_to(conn: Connection, operation: UUID, *phases: str) -> Row:
    """Run steps until the erasure is in one of the phases or done."""
    row = get_status(conn, operation)
    while row["state"] != "done" and row["progress"]["phase"] not in phases:
        before = row["progress"]["phase"]
        row = erasure_step(conn, operation)
        assert row["state"] != "waiting" or row["progress"]["phase"] != before, row["reason"]
    return row


def get_status(conn: Connection, operation: UUID) -> Row:
    row = conn.execute("select * from jobforge.operations where id = %s", [operation]).fetchone()
    assert row is not None
    return row


def finish(conn: Connection, operation: UUID) -> Row:
    row = get_status(conn, operation)
    for _ in range(200):
        if row["state"] == "done":
            return row
        row = erasure_step(conn, operation)
    raise AssertionError(f"the erasure does not end: {row}")


def tables_with(conn: Connection, tenant: UUID) -> set[str]:
    """Return the tables with a tenant's ID in any column, except for operators' audit entries."""
    tables = conn.execute(
        "select c.relname as name from pg_class as c"
        " where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')"
        "   and not c.relispartition and c.relname <> 'audit_log'"
    ).fetchall()
    return {
        table["name"]
        for table in tables
        if conn.execute(
            sql.SQL("select from jobforge.{} as t where t::text like %s limit 1").format(
                sql.Identifier(table["name"])
            ),
            [f"%{tenant}%"],
        ).rowcount
    }


# What the mark prevents.

WRITERS: list[tuple[str, dict[str, Any]]] = [
    ("enqueue_job", {"definition": "test"}),
    ("enqueue_job", {"definition": "test", "options": {"tags": ["t"]}}),
    ("enqueue_job", {"definition": "test", "options": {"key": "k"}}),
    ("enqueue_payloads", {"definition": "test", "payloads": [{}, {}]}),
    ("enqueue_jobs", {"jobs": [{"definition": "test"}]}),
    ("enqueue_workflow", {"workflow": {"nodes": [{"name": "a", "definition": "test"}]}}),
    ("create_batch", {}),
    ("emit_event", {"name": "shipped"}),
    ("start_operation", {"kind": "cancel", "filter": {}}),
    ("annotate_failure", {"fingerprint": "f", "changes": {"note": "n"}}),
    ("list_jobs", {}),
]


@pytest.mark.parametrize("registered", [True, False])
def test_the_id_of_an_erased_tenant_can_never_be_used_again(
    conn: Connection, connect: Connect, *, registered: bool
) -> None:
    definition(conn)
    if registered:
        call(conn, "put_tenant", tenant_id=TENANT_A, settings={"slug": "acme"})
    enqueue_one(conn, key="k")
    operation = begin(conn)
    client = connect("client_login")
    for _ in ("while it is erased", "afterwards"):
        for function, given in WRITERS:
            with as_tenant(client, TENANT_A), refused("JF014", tenant_id=str(TENANT_A)):
                call(client, function, **given)
        for function in ("put_tenant", "pause_tenant", "resume_tenant"):
            with refused("JF014"):
                call(conn, function, tenant_id=TENANT_A)
        key = {"name": "n", "role": "viewer", "lookup": "lookup12", "hash": b"0" * 32}
        with refused("JF014"):
            call(conn, "create_api_key", **key, tenant_id=TENANT_A)
        finish(conn, operation)
    assert tables_with(conn, TENANT_A) == LEFT
    enqueue_one(conn, TENANT_B)
    # Its slug can be used again.
    call(conn, "put_tenant", tenant_id=TENANT_B, settings={"slug": "acme"})


def test_jobs_of_a_marked_tenant_are_not_claimed(conn: Connection) -> None:
    definition(conn)
    definition(conn, "capped", max_running=5)
    enqueue(conn, TENANT_A, n=3)
    enqueue(conn, TENANT_A, n=3, definition="capped")
    kept = [enqueue_one(conn, TENANT_B), enqueue_one(conn, TENANT_B, definition="capped")]
    begin(conn)
    claimed = claim(conn, new_worker(), limit=20)
    assert sorted(row["job_id"] for row in claimed) == sorted(kept)


def test_workers_of_running_jobs_are_woken_and_their_leases_are_reported_as_lost(
    conn: Connection, connect: Connect
) -> None:
    definition(conn, hooks=True)
    enqueue(conn, n=2)
    worker = new_worker()
    jobs = claim(conn, worker, limit=2)
    listener = connect()
    listener.execute(f'listen "jobforge:worker:{worker}"'.encode())
    begin(conn)
    assert [n.channel for n in listener.notifies(timeout=10, stop_after=1)]
    beats = heartbeat(conn, worker, jobs)
    assert [beat["status"] for beat in beats if beat["job_id"]] == ["lost", "lost"]
    assert [row["status"] for row in complete(conn, worker, jobs[:1])] == ["lost"]
    assert len(succeed(conn, worker, jobs[1:])) == 1
    assert [row["status"] for row in note(conn, worker, jobs, text="late")] == ["lost", "lost"]
    for table in ("finished_jobs", "attempts", "job_events"):
        assert count(conn, table) == 0


def test_a_late_settlement_has_no_effect_and_does_not_fail_the_others_of_its_batch(
    conn: Connection,
) -> None:
    definition(conn, hooks=True)
    parents = [enqueue_one(conn, tenant) for tenant in (TENANT_A, TENANT_B)]
    children = [
        enqueue_one(conn, tenant, after=[str(parent)])
        for tenant, parent in zip((TENANT_A, TENANT_B), parents, strict=True)
    ]
    worker = new_worker()
    jobs = claim(conn, worker, limit=2)
    # Simulates jobs claimed by a statement whose snapshot did not have the mark yet.
    conn.execute(
        "insert into jobforge.tenants (id, created_at, updated_at, erased_at)"
        " values (%s, now(), now(), now())",
        [TENANT_A],
    )
    assert [row["status"] for row in complete(conn, worker, jobs)] == ["ok", "ok"]
    assert state_of(conn, TENANT_A, children[0]) == "blocked"
    assert state_of(conn, TENANT_B, children[1]) == "queued"


def test_events_of_a_marked_tenant_are_not_dispatched_and_those_of_others_are(
    conn: Connection,
) -> None:
    definition(conn)
    events = [
        call_for_value(conn, "emit_event", name="e", tenant_id=t) for t in (TENANT_A, TENANT_B)
    ]
    conn.execute(
        "insert into jobforge.tenants (id, created_at, updated_at, erased_at)"
        " values (%s, now(), now(), now())",
        [TENANT_A],
    )
    given = [{"id": str(event), "deliveries": []} for event in events]
    assert call_for_value(conn, "record_deliveries", deliveries=given)["events"] == 1
    assert count(conn, "outbox", TENANT_B) == 0


# Other sessions during an erasure.


def test_a_job_that_finishes_during_the_erasure_leaves_nothing(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    enqueue(conn, n=2)
    worker = new_worker()
    jobs = claim(conn, worker, limit=2)
    settling = connect(autocommit=False)
    complete(settling, worker, jobs[:1], "failed", error={"type": "T", "message": "secret"})
    operation = begin(conn)
    row = erasure_step(conn, operation)
    assert (row["state"], row["progress"]["phase"]) == ("waiting", "jobs")
    settling.commit()
    assert count(conn, "attempts") == 1
    finish(conn, operation)
    assert tables_with(conn, TENANT_A) == LEFT


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_a_job_enqueued_before_the_mark_and_committed_after_it_is_erased(
    conn: Connection, connect: Connect, isolation: str
) -> None:
    definition(conn)
    application = connect(autocommit=False)
    application.execute(f"set transaction isolation level {isolation}".encode())
    enqueue_one(application)
    operation = begin(conn)
    if isolation == "repeatable read":
        enqueue_one(application)  # its snapshot does not have the mark
    row = advance_to(conn, operation, "barrier")
    row = erasure_step(conn, operation)
    assert (row["state"], row["progress"]["phase"]) == ("waiting", "barrier")
    application.commit()
    finish(conn, operation)
    assert tables_with(conn, TENANT_A) == LEFT
    assert erased_rows(conn, TENANT_A)["jobs"] == 2 if isolation == "repeatable read" else 1


def test_an_operator_without_superuser_rights_waits_for_uncommitted_notes(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    enqueue_one(conn)
    worker = new_worker()
    jobs = claim(conn, worker)
    speaking = connect("worker_login", autocommit=False)
    note(speaking, worker, jobs, text="secret")
    operation = begin(conn)
    operator = connect("admin_login")
    steps = 0
    while get_status(conn, operation)["state"] != "waiting":
        assert call(operator, "advance_operations"), "no step was made"
        steps += 1
        assert steps < 20
    assert get_status(conn, operation)["progress"]["phase"] == "barrier"
    speaking.commit()
    finish(conn, operation)
    assert tables_with(conn, TENANT_A) == LEFT


def test_a_step_waits_for_no_settlement_and_settlements_of_other_tenants_succeed(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    parents = [enqueue_one(conn, tenant) for tenant in (TENANT_A, TENANT_B)]
    for tenant, parent in zip((TENANT_A, TENANT_B), parents, strict=True):
        enqueue(conn, tenant, n=3, after=[str(parent)])
    worker = new_worker()
    jobs = claim(conn, worker, limit=2)
    settling = connect(autocommit=False)
    complete(settling, worker, jobs)
    slicing = connect()
    # The step would wait for the settlement's lock: a deadlock if the settlement waited for the
    # step.
    slicing.execute("set lock_timeout = '100ms'")
    operation = begin(slicing)
    for _ in range(3):
        erasure_step(slicing, operation)
    settling.commit()
    assert state_of(conn, TENANT_B, parents[1]) == "succeeded"
    assert count(conn, "awaited_jobs", TENANT_B) == 0
    finish(conn, operation)
    assert tables_with(conn, TENANT_A) == LEFT


def test_a_settlement_during_an_erasure_step_is_lost_for_the_erased_tenant_only(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    for tenant in (TENANT_A, TENANT_B):
        parent = enqueue_one(conn, tenant)
        enqueue(conn, tenant, n=3, after=[str(parent)])
    worker = new_worker()
    jobs = claim(conn, worker, limit=2)
    slicing = connect(autocommit=False)
    begin(slicing)
    call(slicing, "advance_operations")
    settling = connect()
    with in_background(settling, lambda c: complete(c, worker, jobs)) as settled:
        rows = {row["job_id"]: row["status"] for row in settled.result(timeout=30)}
    assert rows == {job["job_id"]: "busy" if job["tenant_id"] == TENANT_A else "ok" for job in jobs}
    slicing.commit()
    [erased] = [job for job in jobs if job["tenant_id"] == TENANT_A]
    assert [row["status"] for row in complete(conn, worker, [erased])] == ["lost"]


# Steps.


def test_a_step_deletes_no_more_than_its_limit_and_reports_progress(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, n=25)
    enqueue(conn, TENANT_B, n=2)
    operation = begin(conn)
    assert get_status(conn, operation)["matched"] == 25
    left = []
    while count(conn, "jobs", TENANT_A):
        call(conn, "advance_operations", limit=1)
        left.append(count(conn, "jobs", TENANT_A))
        assert get_status(conn, operation)["done"] == 25 - left[-1]
    assert left == [15, 5, 0]
    finish(conn, operation)
    [row] = call(conn, "get_operation", id=operation, tenant_id=TENANT_A)
    assert (row["kind"], row["state"], row["done"], row["matched"]) == ("erase", "done", 25, 25)
    assert count(conn, "jobs", TENANT_B) == 2


def test_another_driver_continues_after_a_driver_was_killed_at_any_step(
    conn: Connection, database: Database
) -> None:
    definition(conn)
    enqueue(conn, n=30)
    worker = new_worker()
    succeed(conn, worker, claim(conn, worker, limit=12))
    operation = begin(conn)
    for step in range(200):
        if get_status(conn, operation)["state"] == "done":
            break
        before = get_status(conn, operation)
        with closing(connect_to(database.url)) as driver:
            driver.autocommit = False
            erasure_step(driver, operation, limit=1)
            if step % 2:
                driver.commit()
            else:
                conn.execute("select pg_terminate_backend(%s, 10000)", [driver.info.backend_pid])
                assert get_status(conn, operation) == before
    assert get_status(conn, operation)["done"] == 30
    assert tables_with(conn, TENANT_A) == LEFT


def test_of_two_concurrent_drivers_one_makes_the_step(conn: Connection, connect: Connect) -> None:
    definition(conn)
    enqueue(conn, n=30)
    operation = begin(conn)
    first = connect(autocommit=False)
    call(first, "advance_operations", limit=1)
    assert call(conn, "advance_operations", limit=1) == []
    first.commit()
    assert get_status(conn, operation)["done"] == 10
    finish(conn, operation)


def test_rows_locked_by_others_are_skipped_and_deleted_last(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    job, *_ = enqueue(conn, n=5)
    holder = connect(autocommit=False)
    holder.execute("select from jobforge.jobs where id = %s for update", [job])
    operation = begin(conn)
    row = erasure_step(conn, operation)
    assert (row["state"], row["done"]) == ("waiting", 4)
    assert row["reason"] == "waiting for rows of jobs that other transactions have locked"
    holder.rollback()
    assert finish(conn, operation)["done"] == 5


# The final check.


def test_the_final_check_finds_rows_inserted_late(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn)
    operation = begin(conn)
    advance_to(conn, operation, "proof")
    conn.execute(
        "insert into jobforge.job_events (tenant_id, job_id, at, kind) values (%s, %s, now(), 'e')",
        [TENANT_A, job],
    )
    finish(conn, operation)
    assert erased_rows(conn, TENANT_A) == {"jobs": 1, "job_events": 1}
    assert tables_with(conn, TENANT_A) == LEFT


def test_a_job_found_by_the_final_check_restarts_the_erasure(conn: Connection) -> None:
    definition(conn)
    operation = begin(conn)
    advance_to(conn, operation, "proof")
    conn.execute(
        "insert into jobforge.jobs (tenant_id, id, created_at, run_at, version, max_attempts,"
        " allowance, state, definition, queue, payload)"
        " values (%s, %s, now(), now(), 1, 1, 1, 'scheduled', 'test', 'default', '{}')",
        [TENANT_A, uuid4()],
    )
    finish(conn, operation)
    assert tables_with(conn, TENANT_A) == LEFT


def test_an_erasure_is_not_complete_before_the_artifacts_are_deleted(conn: Connection) -> None:
    operation = begin(conn)
    while call(conn, "advance_operations"):
        pass
    row = get_status(conn, operation)
    assert (row["finished_at"], row["progress"]["phase"]) == (None, "artifacts")
    # No process deletes them if all workers are TypeScript workers and no server runs.
    assert (row["state"], "waiting for a server" in row["reason"]) == ("waiting", True)
    [found] = call(conn, "next_erasure")
    assert found == {"tenant_id": TENANT_A, "operation_id": operation}
    assert call(conn, "next_erasure") == []  # another process is deleting them
    assert call(conn, "advance_operations") == []
    conn.execute("update jobforge.operations set due_at = now()")  # that process was killed
    [found] = call(conn, "next_erasure")
    assert call_for_value(conn, "confirm_erasure", **found) is True
    assert call_for_value(conn, "confirm_erasure", **found) is False


def test_an_erasure_is_complete_when_a_listing_after_the_final_check_finds_no_file(
    conn: Connection,
) -> None:
    operation = begin(conn)
    for has_files in (True, True, False):
        while call(conn, "advance_operations"):
            pass
        row = get_status(conn, operation)
        assert (row["state"], row["progress"]["phase"]) == ("waiting", "artifacts")
        [found] = call(conn, "next_erasure")
        call(conn, "confirm_erasure", **found, found=has_files)
    while call(conn, "advance_operations"):
        pass
    assert get_status(conn, operation)["state"] == "done"
    assert "listed" not in get_status(conn, operation)["progress"]


def test_a_second_call_joins_the_erasure_and_a_later_one_starts_another(conn: Connection) -> None:
    definition(conn)
    enqueue_one(conn)
    operation = begin(conn)
    assert begin(conn) == operation
    finish(conn, operation)
    conn.execute(
        "insert into jobforge.failure_notes (tenant_id, updated_at, fingerprint, updated_by)"
        " values (%s, now(), 'f', 'restored')",
        [TENANT_A],
    )
    # The second erasure deletes the first operation.
    assert erase(conn) == {"jobs": 0, "failure_notes": 1, "operations": 1}
    assert count(conn, "failure_notes") == 0


def test_the_audit_log_records_who_erased_which_tenant_and_row_counts_only(
    conn: Connection,
) -> None:
    definition(conn)
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"slug": "acme", "name": "Acme"})
    enqueue_one(conn)
    with conn.transaction():
        conn.execute("select set_config('app.actor', 'key:operator', true)")
        operation = begin(conn)
    finish(conn, operation)
    rows = conn.execute(
        "select tenant_id, actor, action, detail from jobforge.audit_log"
        " where target = %s or tenant_id = %s order by id",
        [str(TENANT_A), TENANT_A],
    ).fetchall()
    erased = {"jobs": 1, "audit_log": 1}
    assert [tuple(row.values()) for row in rows] == [
        (None, "key:operator", "tenant.delete", {"operation_id": str(operation)}),
        (
            None,
            "key:operator",
            "tenant.erased",
            {"operation_id": str(operation), "rows": erased},
        ),
    ]
    [mark] = conn.execute("select * from jobforge.tenants where id = %s", [TENANT_A]).fetchall()
    assert (mark["slug"], mark["name"], mark["paused_at"]) == (None, None, None)


def test_operator_actions_for_an_erased_tenant_are_logged_without_its_id(
    conn: Connection, connect: Connect
) -> None:
    operation = begin(conn)
    server = connect("server_login")
    with as_tenant(server, TENANT_A):
        call(server, "note_access", action="tenant.access", target="GET /operations")
        [row] = call(server, "get_operation", id=operation)
        assert row["kind"] == "erase"
    with as_tenant(server, TENANT_A), refused("JF014"):
        call(server, "cancel_operation", id=operation)
    assert count(conn, "audit_log", TENANT_A) == 0
    assert count(conn, "audit_log") == 2


# One value of each type, for rows that no function would write.
_DUMMIES = {
    "uuid": "gen_random_uuid()",
    "timestamp with time zone": "now()",
    "jsonb": "'{}'",
    "bytea": "''",
    "text[]": "'{}'",
    "uuid[]": "'{}'",
    "integer[]": "'{}'",
    "boolean": "false",
    "xid8": "'1'",
    "text": "gen_random_uuid()",
}


def test_every_table_with_rows_of_tenants_is_emptied(conn: Connection) -> None:
    columns = conn.execute(
        """
        select c.relname as name, a.attname as column, a.attrelid::regclass::text as relation,
               format_type(a.atttypid, null) as type, a.attnotnull as is_needed, a.atthasdef
          from pg_class as c join pg_attribute as a on a.attrelid = c.oid
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
           and not c.relispartition and a.attnum > 0 and not a.attisdropped
         order by c.relname, a.attnum
        """
    ).fetchall()
    tables = {row["name"]: row["relation"] for row in columns if row["column"] == "tenant_id"}
    assert len(tables) > 20
    for check in conn.execute(
        "select conrelid::regclass::text as relation, conname as name from pg_constraint"
        " where connamespace = 'jobforge'::regnamespace and contype = 'c' and conislocal"
        "   and conrelid <> 0 and coninhcount = 0"
    ).fetchall():
        if check["relation"].removeprefix("jobforge.") in tables:
            conn.execute(
                f'alter table {check["relation"]} drop constraint "{check["name"]}"'.encode()
            )
    for name, relation in tables.items():
        for tenant in (TENANT_A, TENANT_B):
            given = {
                row["column"]: _DUMMIES.get(row["type"], "'1'")
                for row in columns
                if row["name"] == name and row["is_needed"] and not row["atthasdef"]
            }
            given["tenant_id"] = f"'{tenant}'"
            given |= {} if name != "jobs" else {"state": "'scheduled'"}
            given |= {} if name != "operations" else {"due_at": "'infinity'"}
            conn.execute(
                f"insert into {relation} ({', '.join(given)}) values"
                f" ({', '.join(given.values())})".encode()
            )
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"slug": "acme", "rate_limit": 5})
    call(conn, "take_request", bucket=f"tenant:{TENANT_A}", rate=1, burst=5)
    conn.execute(
        b"insert into jobforge.rate_limits values ('tenant:' || %(t)s, 1, now()),"
        b" ('key:' || %(t)s || '/test/k', 1, now())",
        {"t": str(TENANT_A)},
    )
    counts = erase(conn)
    assert {table for table, n in counts.items() if n} >= set(tables) - {"audit_log"}
    assert tables_with(conn, TENANT_A) == LEFT
    assert count(conn, "operations", TENANT_A) == 1
    for table in tables:
        assert count(conn, table, TENANT_B) >= 1, table
