"""Actions of operators: tenants, queues, pauses, and the audit log that records them."""

from functools import partial
from typing import Any
from uuid import UUID

import pytest
from cluster import Connect, Connection
from sql.background_call import in_background, wait_until_blocked
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    call,
    claim,
    definition,
    enqueue,
    enqueue_one,
    new_worker,
    refused,
)


def tenant(conn: Connection, tenant_id: UUID = TENANT_A) -> Row:
    [row] = conn.execute("select * from jobforge.tenants where id = %s", [tenant_id]).fetchall()
    return row


def put_tenant(conn: Connection, tenant_id: UUID = TENANT_A, **settings: Any) -> None:
    call(conn, "put_tenant", tenant_id=tenant_id, settings=settings)


def queue(conn: Connection, name: str = "q") -> Row:
    [row] = conn.execute("select * from jobforge.queues where name = %s", [name]).fetchall()
    return row


def audited(conn: Connection) -> list[tuple[str, str | None]]:
    rows = conn.execute("select action, target from jobforge.audit_log order by id").fetchall()
    return [(row["action"], row["target"]) for row in rows]


# Tenants.


def test_a_tenant_keeps_the_settings_that_a_change_does_not_name(conn: Connection) -> None:
    put_tenant(conn, slug="acme", name="Acme", weight=3, max_running=5, rate_limit=7)
    put_tenant(conn, max_pending=9)
    row = tenant(conn)
    assert (row["slug"], row["name"], row["weight"]) == ("acme", "Acme", 3)
    assert (row["max_running"], row["max_pending"], row["rate_limit"]) == (5, 9, 7)


def test_null_removes_a_tenants_setting(conn: Connection) -> None:
    given = {"slug": "acme", "name": "Acme", "timezone": "Europe/Vienna", "weight": 3}
    given |= {"max_running": 5, "max_pending": 9, "rate_limit": 7, "rate_period_s": 60}
    given |= {"rate_burst": 8}
    call(conn, "put_tenant", tenant_id=TENANT_A, settings=given)
    call(conn, "put_tenant", tenant_id=TENANT_A, settings=dict.fromkeys(given))
    row = tenant(conn)
    defaults = {"timezone": "UTC", "weight": 1, "rate_period_s": 1}
    assert {name: row[name] for name in given} == dict.fromkeys(given) | defaults


def test_two_tenants_cannot_have_one_slug(conn: Connection) -> None:
    put_tenant(conn, slug="acme")
    with refused("JF005", field="slug"):
        put_tenant(conn, TENANT_B, slug="acme")
    assert conn.execute("select from jobforge.tenants").rowcount == 1


def test_tenants_with_settings_are_listed_by_slug(conn: Connection) -> None:
    definition(conn)
    enqueue_one(conn, UUID(int=7))
    put_tenant(conn, TENANT_A, slug="zoo", weight=3)
    put_tenant(conn, TENANT_B, slug="acme", max_pending=9)
    call(conn, "pause_tenant", tenant_id=TENANT_B)
    rows = call(conn, "list_tenants")
    assert [(row["id"], row["weight"], row["max_pending"]) for row in rows] == [
        (TENANT_B, 1, 9),
        (TENANT_A, 3, None),
    ]
    assert [row["paused_at"] is None for row in rows] == [False, True]


def test_a_pause_survives_a_change_of_settings(conn: Connection) -> None:
    call(conn, "pause_tenant", tenant_id=TENANT_A)
    put_tenant(conn, weight=5)
    assert tenant(conn)["paused_at"] is not None


# Queues.


def test_null_removes_a_queues_setting(conn: Connection) -> None:
    given = {"max_running": 5, "rate_limit": 7, "rate_period_s": 60, "rate_burst": 8}
    call(conn, "put_queue", queue="q", settings=given)
    assert {name: queue(conn)[name] for name in given} == given
    call(conn, "put_queue", queue="q", settings={"max_running": None})
    assert (queue(conn)["max_running"], queue(conn)["rate_limit"]) == (None, 7)
    call(conn, "put_queue", queue="q", settings=dict.fromkeys(given))
    row = queue(conn)
    assert {name: row[name] for name in given} == dict.fromkeys(given) | {"rate_period_s": 1}


# Pauses.

PAUSES: list[tuple[str, dict[str, Any]]] = [
    ("queue", {"queue": "default"}),
    ("definition", {"key": "test"}),
    ("tenant", {"tenant_id": TENANT_A}),
]


@pytest.mark.parametrize(("kind", "argument"), PAUSES, ids=[p[0] for p in PAUSES])
def test_a_pause_delays_queued_jobs_and_does_not_block_others(
    conn: Connection, connect: Connect, kind: str, argument: dict[str, Any]
) -> None:
    definition(conn)
    definition(conn, "other")
    before = enqueue_one(conn)
    call(conn, f"pause_{kind}", **argument)
    during = enqueue_one(conn)
    passing = enqueue_one(conn, TENANT_B, definition="other", queue="free")
    claimed = claim(connect(), new_worker(), limit=5) + claim(connect(), new_worker(), "free", 5)
    assert [row["job_id"] for row in claimed] == [passing]
    call(conn, f"resume_{kind}", **argument)
    rows = claim(connect(), new_worker(), limit=5)
    assert {row["job_id"] for row in rows} == {before, during}


@pytest.mark.parametrize(("kind", "argument"), PAUSES, ids=[p[0] for p in PAUSES])
def test_pausing_twice_keeps_the_first_time(
    conn: Connection, kind: str, argument: dict[str, Any]
) -> None:
    definition(conn)
    table, times = f"{kind}s", []
    for _ in range(2):
        call(conn, f"pause_{kind}", **argument)
        rows = conn.execute(f"select paused_at from jobforge.{table}".encode()).fetchall()
        times += [row["paused_at"] for row in rows]
    assert times[0] is not None
    assert times[0] == times[1]


@pytest.mark.parametrize(("kind", "argument"), PAUSES, ids=[p[0] for p in PAUSES])
def test_resuming_without_a_pause_is_not_an_error(
    conn: Connection, kind: str, argument: dict[str, Any]
) -> None:
    definition(conn)
    call(conn, f"resume_{kind}", **argument)


def test_a_paused_definition_stays_paused_when_it_is_registered_again(
    conn: Connection, connect: Connect
) -> None:
    definition(conn, "test", 1)
    call(conn, "pause_definition", key="test")
    definition(conn, "test", 1, timeout_s=5)
    definition(conn, "test", 2)
    jobs = [enqueue_one(conn, definition=f"test@{version}") for version in (1, 2)]
    assert claim(connect(), new_worker(), limit=2) == []
    call(conn, "resume_definition", key="test")
    rows = claim(connect(), new_worker(), limit=2)
    assert {row["job_id"] for row in rows} == set(jobs)


def test_a_new_version_of_a_paused_definition_does_not_block_others(
    conn: Connection, connect: Connect
) -> None:
    definition(conn, "test", 1)
    definition(conn, "other")
    call(conn, "pause_definition", key="test")
    definition(conn, "test", 2)
    for version in (1, 2):
        enqueue_one(conn, definition=f"test@{version}", priority=1)
    other = enqueue_one(conn, definition="other")
    assert [row["job_id"] for row in claim(connect(), new_worker())] == [other]


def test_a_pause_applies_to_a_version_that_is_being_registered(
    conn: Connection, connect: Connect
) -> None:
    definition(conn, "test", 1)
    deploying, pausing = connect(autocommit=False), connect()
    definition(deploying, "test", 2)
    pause = partial(call, function="pause_definition", key="test")
    with in_background(pausing, pause) as future:
        wait_until_blocked(conn, pausing, future)
        deploying.commit()
        future.result(30)
    rows = conn.execute("select paused_at is null as runs from jobforge.definitions").fetchall()
    assert [row["runs"] for row in rows] == [False, False]


# The audit log.


def test_operator_actions_are_audited_with_actor_and_details(conn: Connection) -> None:
    definition(conn)
    worker = new_worker()
    call(conn, "register_worker", worker_id=worker, queues=["q"], slots=1)
    a, b, c = enqueue(conn, n=3)
    conn.execute("select set_config('app.actor', 'ada@example.org', false)")
    put_tenant(conn, weight=2)
    call(conn, "put_queue", queue="q", settings={"max_running": 1})
    call(conn, "override_definition", key="test", overrides={"timeout_s": 5})
    for kind, argument in PAUSES:
        call(conn, f"pause_{kind}", **argument)
        call(conn, f"resume_{kind}", **argument)
    call(conn, "drain_worker", worker_id=worker)
    call(conn, "stop_worker", worker_id=worker)
    call(conn, "edit_job", job_id=a, changes={"priority": 1}, tenant_id=TENANT_A)
    call(conn, "reschedule_job", job_id=b, run_at=None, tenant_id=TENANT_A)
    call(conn, "cancel_job", job_id=c, reason="r", tenant_id=TENANT_A)
    call(conn, "retry_job", job_id=c, tenant_id=TENANT_A)
    call(conn, "cancel_jobs", filter={"key": "none"}, tenant_id=TENANT_A)
    call(conn, "retry_jobs", tenant_id=TENANT_A)
    call(conn, "delete_tenant", tenant_id=TENANT_B)
    assert audited(conn) == [
        ("tenant.put", str(TENANT_A)),
        ("queue.put", "q"),
        ("definition.override", "test"),
        ("queue.pause", "default"),
        ("queue.resume", "default"),
        ("definition.pause", "test"),
        ("definition.resume", "test"),
        ("tenant.pause", str(TENANT_A)),
        ("tenant.resume", str(TENANT_A)),
        ("worker.drain", str(worker)),
        ("worker.stop", str(worker)),
        ("job.edit", str(a)),
        ("job.edit", str(b)),
        ("job.cancel", str(c)),
        ("job.retry", str(c)),
        ("jobs.cancel", None),
        ("jobs.retry", None),
        ("tenant.delete", str(TENANT_B)),
    ]
    [row] = conn.execute("select distinct actor from jobforge.audit_log").fetchall()
    assert row["actor"] == "ada@example.org"


def test_without_a_named_actor_the_login_is_audited(conn: Connection, connect: Connect) -> None:
    put_tenant(connect("admin_login"), weight=2)
    [row] = conn.execute("select actor, tenant_id from jobforge.audit_log").fetchall()
    assert (row["actor"], row["tenant_id"]) == ("admin_login", TENANT_A)


def test_a_refused_action_is_not_audited(conn: Connection) -> None:
    definition(conn)
    with refused("JF002"):
        put_tenant(conn, weight=0)
    with refused("JF004"):
        call(conn, "cancel_job", job_id=new_worker(), tenant_id=TENANT_A)
    assert audited(conn) == []


def test_the_audit_log_does_not_hold_payloads(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn)
    changes = {"payload": {"password": "s3cret"}}
    call(conn, "edit_job", job_id=job, changes=changes, tenant_id=TENANT_A)
    call(conn, "cancel_job", job_id=job, tenant_id=TENANT_A)
    call(conn, "retry_job", job_id=job, payload={"password": "s3cret"}, tenant_id=TENANT_A)
    for table in ["audit_log", "job_events"]:
        rows = conn.execute(
            f"select * from jobforge.{table} as t where t::text ~ 's3cret'".encode()
        )
        assert rows.fetchall() == []
