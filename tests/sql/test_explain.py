"""explain_job: every reason that it can give, the decisive one first, with its remedy."""

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from cluster import Clock, Connection
from sql.engine import (
    TENANT_A,
    Row,
    call,
    claim,
    complete,
    definition,
    enqueue,
    enqueue_one,
    new_worker,
)
from sql.lifecycle_actions import prepare


def explain(conn: Connection, job: UUID, tenant: UUID = TENANT_A) -> list[Row]:
    rows = call(conn, "explain_job", job_id=job, tenant_id=tenant)
    for row in rows:
        assert row["message"]
        assert row["remedy"]
    return rows


def codes(conn: Connection, job: UUID, tenant: UUID = TENANT_A) -> list[str]:
    return [row["code"] for row in explain(conn, job, tenant)]


def register(conn: Connection, queues: list[str], definitions: list[str] | None = None) -> UUID:
    worker = new_worker()
    call(
        conn,
        "register_worker",
        worker_id=worker,
        queues=queues,
        slots=1,
        definitions=definitions,
    )
    return worker


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("scheduled", ["scheduled"]),
        ("retrying", ["backing_off"]),
        ("blocked", ["freed_soon"]),
        ("queued", ["waiting_slot"]),
        ("running", ["running"]),
        ("canceling", ["canceling"]),
        ("succeeded", ["succeeded"]),
        ("canceled", ["canceled"]),
        ("dead", ["dead"]),
    ],
)
def test_each_state_has_its_reason(
    conn: Connection, clock: Clock, start: str, expected: list[str]
) -> None:
    definition(conn, max_attempts=2, backoff_base_s=60)
    subject = prepare(conn, clock, start)
    register(conn, [subject.queue])
    assert codes(conn, subject.job, subject.tenant) == expected


def test_an_expired_lease_is_reported(conn: Connection, clock: Clock) -> None:
    definition(conn, max_attempts=2)
    running = prepare(conn, clock, "running")
    clock.travel(seconds=31)
    [row] = explain(conn, running.job, running.tenant)
    assert row["code"] == "lease_expired"
    assert row["detail"]["worker_id"] == str(running.worker)


def test_a_queue_without_workers_is_reported(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn, queue="mail")
    register(conn, ["default"])
    assert codes(conn, job) == ["queue_not_served", "waiting_slot"]
    register(conn, ["mail"])
    assert codes(conn, job) == ["waiting_slot"]


@pytest.mark.parametrize("gone", ["stopped", "stale", "draining"])
def test_a_worker_that_no_longer_claims_does_not_count(
    conn: Connection, clock: Clock, gone: str
) -> None:
    definition(conn)
    job = enqueue_one(conn)
    worker = register(conn, ["default"])
    if gone == "stopped":
        call(conn, "unregister_worker", worker_id=worker)
    elif gone == "draining":
        call(conn, "drain_worker", worker_id=worker)
    else:
        clock.travel(seconds=61)
    assert "queue_not_served" in codes(conn, job)


def test_a_definition_without_a_worker_in_its_queue_is_reported(conn: Connection) -> None:
    definition(conn, "test", 1)
    definition(conn, "test", 2)
    job = enqueue_one(conn)
    register(conn, ["default"], ["test@1"])
    register(conn, ["elsewhere"], ["test@2"])
    rows = explain(conn, job)
    assert rows[0]["code"] == "definition_not_served"
    assert rows[0]["detail"] == {"queue": "default", "definition": "test", "version": 2}
    register(conn, ["default"], ["test@1", "test@2"])
    assert codes(conn, job) == ["waiting_slot"]


def test_a_command_that_no_worker_allows_names_the_permission(conn: Connection) -> None:
    definition(conn, "thumbnail", 1, command=True)
    job = enqueue_one(conn, definition="thumbnail")
    assert codes(conn, job)[0] == "command_not_allowed", "no worker serves the queue"
    register(conn, ["default"], ["test@1"])
    rows = explain(conn, job)
    assert rows[0]["code"] == "command_not_allowed"
    assert "JOBFORGE_ALLOWED_COMMANDS=thumbnail" in rows[0]["remedy"]
    assert rows[0]["detail"] == {"queue": "default", "definition": "thumbnail", "version": 1}
    register(conn, ["default"], ["thumbnail@1"])
    assert codes(conn, job) == ["waiting_slot"]


@pytest.mark.parametrize(
    ("function", "argument", "expected"),
    [
        ("pause_tenant", {"tenant_id": TENANT_A}, "tenant_paused"),
        ("pause_queue", {"queue": "default"}, "queue_paused"),
        ("pause_definition", {"key": "test"}, "definition_paused"),
    ],
)
def test_a_pause_is_the_first_reason(
    conn: Connection, function: str, argument: dict[str, Any], expected: str
) -> None:
    definition(conn)
    register(conn, ["default"])
    job = enqueue_one(conn)
    call(conn, function, **argument)
    assert codes(conn, job) == [expected, "waiting_slot"]
    assert explain(conn, job)[0]["detail"]["paused_at"]
    call(conn, function.replace("pause", "resume"), **argument)
    assert codes(conn, job) == ["waiting_slot"]


def limit(conn: Connection, kind: str, **settings: Any) -> None:
    """Put a limit on the definition, the tenant, the queue, or each limit_key."""
    names = {
        "max_running": "max_running_per_key",
        "rate_limit": "rate_limit_per_key",
        "rate_period_s": "rate_period_per_key_s",
    }
    per_key = {names[name]: value for name, value in settings.items()}
    registered: dict[str, Any] = {"definition": settings, "key": per_key}.get(kind, {})
    definition(conn, **registered)
    if kind == "tenant":
        call(conn, "put_tenant", tenant_id=TENANT_A, settings=settings)
    elif kind == "queue":
        call(conn, "put_queue", queue="default", settings=settings)


@pytest.mark.parametrize("kind", ["definition", "tenant", "queue", "key"])
def test_a_full_cap_is_reported_with_the_jobs_that_use_it(conn: Connection, kind: str) -> None:
    limit(conn, kind, max_running=1)
    register(conn, ["default"])
    first, second = enqueue(conn, n=2, limit_key="l")
    assert codes(conn, second) == ["waiting_slot"]
    claim(conn, new_worker(), limit=2)
    rows = explain(conn, second)
    assert [row["code"] for row in rows] == [f"{kind}_cap_reached", "waiting_slot"]
    detail = rows[0]["detail"]
    assert (detail["running"], detail["max_running"]) == (1, 1)
    assert [holder["job_id"] for holder in detail["held_by"]] == [str(first)]


@pytest.mark.parametrize("kind", ["definition", "tenant", "queue", "key"])
def test_an_exhausted_rate_is_reported_with_the_next_slot(
    conn: Connection, clock: Clock, kind: str
) -> None:
    limit(conn, kind, rate_limit=1, rate_period_s=60)
    register(conn, ["default"])
    _, second = enqueue(conn, n=2, limit_key="l")
    worker = new_worker()
    complete(conn, worker, claim(conn, worker, limit=2))
    rows = explain(conn, second)
    assert [row["code"] for row in rows] == [f"{kind}_rate_limited", "waiting_slot"]
    assert rows[0]["detail"]["rate_limit"] == 1
    assert datetime.fromisoformat(rows[0]["detail"]["next_at"]) > clock.now()


def test_the_number_of_jobs_that_go_first_is_reported(conn: Connection) -> None:
    definition(conn)
    register(conn, ["default"])
    enqueue(conn, n=2)
    job = enqueue_one(conn)
    enqueue(conn, n=3, priority=1)
    enqueue(conn, n=4)
    enqueue(conn, n=5, priority=1, queue="other")
    [row] = explain(conn, job)
    assert (row["code"], row["detail"]["ahead"]) == ("waiting_slot", 5)


def test_all_applicable_reasons_are_reported(conn: Connection) -> None:
    definition(conn, max_running=1)
    job = enqueue(conn, n=2)[1]
    claim(conn, new_worker())
    call(conn, "pause_queue", queue="default")
    assert codes(conn, job) == [
        "queue_paused",
        "definition_cap_reached",
        "queue_not_served",
        "waiting_slot",
    ]
