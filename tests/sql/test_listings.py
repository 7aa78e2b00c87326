"""Lists of definitions, queues and audit entries: their content, and who can see it."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    as_tenant,
    call,
    claim,
    definition,
    enqueue,
    new_worker,
    refused,
)


@pytest.fixture(scope="module")
def conn(shared_conn: Connection) -> Connection:
    definition(shared_conn)
    return shared_conn


# Definitions.


def test_definitions_are_listed_by_key_with_their_effective_settings(conn: Connection) -> None:
    definition(conn, "mail.send", 1, timeout_s=9)
    definition(conn, "mail.send", 2, timeout_s=10, parameters={"type": "object"})
    definition(conn, "mail.read", 1, is_active=False)
    call(conn, "override_definition", key="mail.send", overrides={"max_attempts": 3})
    rows = call(conn, "list_definitions", prefix="mail.")
    assert [(row["key"], row["version"], row["versions"]) for row in rows] == [
        ("mail.read", 1, [1]),
        ("mail.send", 2, [1, 2]),
    ]
    assert [(row["timeout_s"], row["max_attempts"]) for row in rows] == [(3600, 5), (10, 3)]
    assert [row["is_active"] for row in rows] == [False, True]
    [after] = call(conn, "list_definitions", prefix="mail.", limit=1, after="mail.read")
    assert after["key"] == "mail.send"
    assert call(conn, "list_definitions", prefix="%") == []


def test_a_definition_shows_its_registered_settings_and_its_overrides(conn: Connection) -> None:
    settings = {"timeout_s": 9, "parameters": {"type": "object"}}
    definition(conn, "shown", 1, **settings)
    definition(conn, "shown", 2, is_active=False)
    call(conn, "override_definition", key="shown", overrides={"timeout_s": 5})
    [current] = call(conn, "get_definition", key="shown")
    assert (current["version"], current["timeout_s"]) == (1, 5)
    assert (current["registered"], current["overrides"]) == (settings, {"timeout_s": 5})
    assert current["parameters"] == {"type": "object"}
    [named] = call(conn, "get_definition", key="shown", version=2)
    assert (named["version"], named["is_active"], named["versions"]) == (2, False, [1, 2])
    for key, version in (("shown", 3), ("shown@1", None), ("unknown", None), (None, None)):
        with refused("JF004", key=key):
            call(conn, "get_definition", key=key, version=version)


# Queues.


def queues(conn: Connection, tenant: UUID | None = None) -> dict[str, Row]:
    return {row["name"]: row for row in call(conn, "list_queues", tenant_id=tenant)}


def counts(row: Row) -> tuple[int, int, int]:
    return row["queued"], row["running"], row["scheduled"]


def test_queues_show_limits_and_the_jobs_of_one_or_all_tenants(conn: Connection) -> None:
    a, b = uuid4(), uuid4()
    enqueue(conn, a, 3, queue="busy")
    claim(conn, new_worker(), "busy")
    enqueue(conn, a, 1, queue="busy", delay_s=60)
    enqueue(conn, b, 4, queue="busy")
    enqueue(conn, b, 1, queue="of-b")
    call(conn, "put_queue", queue="limited", settings={"max_running": 5, "rate_limit": 7})
    enqueue(conn, a, 2, queue="limited")
    call(conn, "pause_queue", queue="paused")

    of_a, of_b, of_all = queues(conn, a), queues(conn, b), queues(conn)
    assert counts(of_a["busy"]) == (2, 1, 1)
    assert counts(of_b["busy"]) == (4, 0, 0)
    assert counts(of_all["busy"]) == (6, 1, 1)
    assert counts(of_a["limited"]) == counts(of_all["limited"]) == (2, 0, 0)
    assert (of_a["limited"]["max_running"], of_a["limited"]["rate_limit"]) == (5, 7)
    assert of_a["paused"]["paused_at"] is not None
    assert counts(of_a["default"]) == (0, 0, 0)
    assert "of-b" in of_b
    assert "of-b" not in of_a
    oldest = [shown["busy"]["oldest_queued_at"] for shown in (of_a, of_b, of_all)]
    assert None not in oldest
    assert oldest[2] == min(oldest)


def test_an_operator_sees_the_running_jobs_of_a_queue(conn: Connection, connect: Connect) -> None:
    for tenant in (TENANT_A, TENANT_B):
        enqueue(conn, tenant, 2, queue="held")
    call(conn, "put_tenant", tenant_id=TENANT_B, settings={"slug": "holder"})
    worker = new_worker()
    running = {job["job_id"] for job in claim(conn, worker, "held", limit=3)}
    held = call(conn, "list_holders", queue="held")
    assert {row["job_id"] for row in held} == running
    assert {row["worker_id"] for row in held} == {worker}
    assert {row["tenant_id"]: row["slug"] for row in held} == {TENANT_A: None, TENANT_B: "holder"}
    assert call(conn, "list_holders", queue="held", limit=1) == held[:1]
    with refused("42501"):
        call(connect("client_login"), "list_holders", queue="held")
    with as_tenant(conn, TENANT_A), refused("JF006"):
        call(conn, "list_holders", queue="held")


def test_a_client_without_a_tenant_sees_no_queue(connect: Connect) -> None:
    with refused("JF001"):
        queues(connect("client_login"))
    assert queues(connect("admin_login")) == queues(connect("server_login")) == {}


# The audit log.


def audit(conn: Connection, tenant: UUID | None = None, **which: Any) -> list[str]:
    rows = call(conn, "list_audit", filter=which, tenant_id=tenant)
    return [row["action"] for row in rows]


def test_the_log_is_filtered_and_paged_newest_first(shared_clock: Clock, conn: Connection) -> None:
    tenant = uuid4()
    conn.execute("select set_config('app.actor', 'ada', false)")
    call(conn, "put_tenant", tenant_id=tenant, settings={"weight": 2})
    shared_clock.travel(hours=1)
    between = shared_clock.now() - timedelta(minutes=1)
    conn.execute("select set_config('app.actor', 'bob', false)")
    call(conn, "pause_tenant", tenant_id=tenant)
    call(conn, "resume_tenant", tenant_id=tenant)
    conn.execute("select set_config('app.actor', '', false)")

    assert audit(conn, tenant) == ["tenant.resume", "tenant.pause", "tenant.put"]
    assert audit(conn, tenant, actor="ada") == ["tenant.put"]
    assert audit(conn, tenant, action="tenant.pause", target=str(tenant)) == ["tenant.pause"]
    assert audit(conn, tenant, after=between.isoformat()) == ["tenant.resume", "tenant.pause"]
    assert audit(conn, tenant, before=between.isoformat()) == ["tenant.put"]
    assert audit(conn, tenant, target="nothing") == []
    [last] = call(conn, "list_audit", limit=1, tenant_id=tenant)
    rest = call(conn, "list_audit", before=last["id"], tenant_id=tenant)
    assert [row["action"] for row in rest] == ["tenant.pause", "tenant.put"]
    for field, value in (("who", "ada"), ("after", "yesterday"), ("actor", 5)):
        with refused("JF002", field=field):
            audit(conn, tenant, **{field: value})


def test_a_tenant_reads_its_own_log_and_operators_read_all(connect: Connect) -> None:
    admin = connect("admin_login")
    for tenant in (TENANT_A, TENANT_B):
        call(admin, "put_tenant", tenant_id=tenant)
    call(admin, "pause_queue", queue="q")
    client = connect("client_login")
    with as_tenant(client, TENANT_A):
        assert audit(client) == ["tenant.put"]
    with refused("JF001"):
        audit(client)
    assert audit(admin) == ["queue.pause", "tenant.put", "tenant.put"]
    assert audit(connect("server_login"), TENANT_B) == ["tenant.put"]


def test_the_server_logs_who_acts_for_a_tenant(connect: Connect) -> None:
    server = connect("server_login")
    with as_tenant(server, TENANT_A):
        server.execute("select set_config('app.actor', 'key:ab12cd34', true)")
        call(server, "note_access", action="tenant.access", target="GET /api/v1/jobs")
        [row] = call(server, "list_audit")
    assert (row["actor"], row["action"]) == ("key:ab12cd34", "tenant.access")
    assert row["tenant_id"] == TENANT_A
    with refused("JF001"):
        call(server, "note_access", action="tenant.access")
    with refused("42501"):
        call(connect("admin_login"), "note_access", action="tenant.access")
