"""The health of an installation: gauges are correct, and stuck work is found."""

import pytest
from cluster import Clock, Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    as_tenant,
    call,
    claim,
    complete,
    definition,
    enqueue,
    new_worker,
    refused,
)


def gauges(conn: Connection, **arguments: int) -> dict[tuple[str, str | None, str | None], float]:
    rows = call(conn, "read_gauges", **arguments)
    return {(row["gauge"], row["subject"], row["state"]): row["value"] for row in rows}


def problems(conn: Connection) -> dict[str, Row]:
    return {row["kind"]: row for row in call(conn, "find_problems")}


def test_jobs_are_counted_by_queue_and_state_with_the_oldest_wait(
    conn: Connection, clock: Clock
) -> None:
    definition(conn, queue="mail", max_attempts=1)
    worker = new_worker()
    enqueue(conn, n=4)
    enqueue(conn, n=2, delay_s=3600)
    [first, _] = claim(conn, worker, queue="mail", limit=2)
    complete(conn, worker, [first], "failed")
    clock.travel(seconds=20)
    enqueue(conn, TENANT_B)
    found = gauges(conn)
    assert found["jobs", "mail", "queued"] == 3
    assert found["jobs", "mail", "running"] == 1
    assert found["jobs", "mail", "scheduled"] == 2
    assert found["dead", None, None] == 1
    assert found["oldest_wait", "mail", None] == pytest.approx(20, abs=5)
    assert found["expired_leases", None, None] == 0
    clock.travel(seconds=60)
    assert gauges(conn)["expired_leases", None, None] == 1


def test_tenants_beyond_those_with_most_jobs_are_counted_as_one(conn: Connection) -> None:
    definition(conn)
    definition(conn, "held", max_running=1)
    enqueue(conn, TENANT_A, 2)
    enqueue(conn, TENANT_A, 3, definition="held")
    enqueue(conn, TENANT_B, 4)
    apart = gauges(conn)
    assert apart["tenant_queued", str(TENANT_A), None] == 5
    assert apart["tenant_queued", str(TENANT_B), None] == 4
    assert ("tenant_queued", "other", None) not in apart
    together = gauges(conn, tenants=1)
    assert together["tenant_queued", str(TENANT_A), None] == 5
    assert together["tenant_queued", "other", None] == 4
    with refused("JF002"):
        gauges(conn, tenants=0)


def test_tables_partitions_workers_and_maintenance_are_measured(
    conn: Connection, clock: Clock
) -> None:
    call(conn, "register_worker", worker_id=new_worker(), queues=["default"], slots=4)
    found = gauges(conn)
    assert found["workers", None, "live"] == 1
    assert found["workers", None, "stale"] == 0
    assert found["slots", None, None] == 4
    assert found["table_bytes", "jobs", None] > 0
    assert found["days_ahead", "attempts", None] >= 6
    assert found["default_rows", "attempts", None] == 0
    assert {("dead_rows", "jobs", None), ("inserted", "jobs", None)} <= set(found)
    turn = {"task": "retention", "every_s": 30}
    call(conn, "start_maintenance", by="one:1", **turn)
    clock.travel(seconds=60)
    call(conn, "start_maintenance", by="one:1", **turn)
    clock.travel(seconds=30)
    found = gauges(conn)
    assert found["maintenance_age", "retention", None] == pytest.approx(30, abs=5)
    assert found["maintenance_held", "retention", "one:1"] == pytest.approx(90, abs=5)
    call(conn, "start_maintenance", by="two:2", **turn)
    assert gauges(conn)["maintenance_held", "retention", "two:2"] == pytest.approx(0, abs=5)


def test_work_that_needs_an_operator_is_reported_with_its_subject(
    conn: Connection, clock: Clock
) -> None:
    definition(conn, queue="mail")
    enqueue(conn)
    nightly = {"label": "nightly", "definition": "test", "cron": "* * * * *"}
    call(conn, "create_trigger", type="schedule", settings=nightly, tenant_id=TENANT_A)
    call(conn, "emit_event", name="order.paid", tenant_id=TENANT_A)
    call(conn, "start_operation", kind="cancel", filter={"queue": "mail"}, tenant_id=TENANT_A)
    assert set(problems(conn)) == {"unserved"}
    conn.execute(
        """
        insert into jobforge.webhook_endpoints
            (tenant_id, id, created_at, updated_at, disabled_at, enabled, url, disabled_reason,
             created_by, secret, events)
        values (%s, gen_random_uuid(), now(), now(), now(), false, 'https://gone.example',
                'the receiver returned 410 Gone', 'me', '\\x00', '{end}')
        """,
        [TENANT_A],
    )
    clock.travel(seconds=600)
    found = problems(conn)
    assert set(found) == {"unserved", "overdue", "event", "webhook", "operation"}
    assert (found["unserved"]["subject"], found["unserved"]["detail"]) == ("test@1", "mail")
    assert (found["overdue"]["subject"], found["overdue"]["tenant_id"]) == ("nightly", TENANT_A)
    assert found["event"]["detail"] == "1"
    conn.execute(
        "update jobforge.triggers set fault = 'no such zone', enabled = false, due_at = null"
    )
    assert problems(conn)["faulty"]["detail"] == "no such zone"
    measured = gauges(conn)
    for gauge in ("faulty_triggers", "pending_events", "open_operations", "disabled_webhooks"):
        assert measured[gauge, None, None] == 1
    assert measured["event_lag", None, None] == pytest.approx(600, abs=5)


def test_missed_firings_are_listed_for_all_tenants(conn: Connection) -> None:
    nightly = {"label": "nightly", "definition": "test", "cron": "0 2 * * *"}
    definition(conn)
    for tenant in (TENANT_A, TENANT_B):
        call(conn, "create_trigger", type="schedule", settings=nightly, tenant_id=tenant)
    conn.execute(
        """
        insert into jobforge.firings (tenant_id, trigger_id, fire_at, at, job_id, outcome, reason)
        select t.tenant_id, t.id, now() - o.age, now() - o.age, o.job, o.outcome, o.reason
          from jobforge.triggers as t
         cross join (values (interval '1 hour', gen_random_uuid(), 'enqueued', null),
                            ('2 hours', null, 'skipped', 'the one before has not ended'),
                            ('3 hours', null, 'failed', 'Definition not found')
                    ) as o(age, job, outcome, reason)
        """
    )
    found = call(conn, "list_missed_firings")
    assert {row["tenant_id"] for row in found} == {TENANT_A, TENANT_B}
    assert [row["outcome"] for row in found] == ["skipped", "skipped", "failed", "failed"]
    assert (found[0]["label"], found[0]["reason"]) == ("nightly", "the one before has not ended")
    assert call(conn, "list_missed_firings", limit=1) == found[:1]


def test_a_tenant_learns_nothing_about_the_installation(connect: Connect) -> None:
    server = connect("server_login")
    with as_tenant(server, TENANT_A), refused("JF006"):
        call(server, "read_gauges")
    with as_tenant(server, TENANT_A), refused("JF006"):
        call(server, "find_problems")
    with as_tenant(server, TENANT_A), refused("JF006"):
        call(server, "list_missed_firings")
    assert call(server, "read_gauges")
    assert call(server, "list_migrations")
    for login in ("client_login", "worker_login"):
        for function in ("read_gauges", "find_problems", "list_missed_firings", "list_migrations"):
            with refused("42501"):
                call(connect(login), function)
