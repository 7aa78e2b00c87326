"""How enqueue interprets its fields, and what it refuses."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from cluster import Clock, Connect, Connection
from psycopg.types.json import Jsonb
from sql.engine import (
    TENANT_A,
    TENANT_B,
    as_tenant,
    call,
    claim,
    count,
    definition,
    enqueue,
    enqueue_one,
    job_of,
    new_worker,
    refused,
    state_of,
)

KIB = 1024


def enqueue_batch(conn: Connection, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return call(conn, "enqueue_jobs", jobs=Jsonb(jobs), tenant_id=TENANT_A)


def test_ids_of_a_batch_sort_in_the_order_of_its_elements(conn: Connection) -> None:
    definition(conn)
    rows = enqueue_batch(conn, [{"definition": "test", "payload": {"n": n}} for n in range(500)])
    assert [row["index"] for row in rows] == list(range(500))
    ids = [row["job_id"] for row in rows]
    assert ids == sorted(ids)
    stored = conn.execute("select payload from jobforge.jobs order by id").fetchall()
    assert [row["payload"]["n"] for row in stored] == list(range(500))


def test_later_batches_have_higher_ids(conn: Connection) -> None:
    definition(conn)
    batches = [enqueue(conn, n=20) for _ in range(20)]
    ids = [job for batch in batches for job in batch]
    assert ids == sorted(ids)


def test_enqueue_returns_a_row_for_each_element_in_order(conn: Connection) -> None:
    definition(conn)
    enqueue_one(conn, key="second")
    rows = enqueue_batch(
        conn,
        [
            {"definition": "test"},
            {"definition": "test", "key": "second"},
            {"definition": "test", "key": "first"},
            {"definition": "test"},
        ],
    )
    assert [row["index"] for row in rows] == [0, 1, 2, 3]
    assert [row["status"] for row in rows] == ["created", "existing", "created", "created"]


def test_an_empty_batch_creates_nothing(conn: Connection) -> None:
    assert enqueue_batch(conn, []) == []


def test_one_invalid_element_undoes_the_whole_batch(conn: Connection) -> None:
    definition(conn)
    with refused("JF009", definition="absent"):
        enqueue_batch(conn, [{"definition": "test"}, {"definition": "absent"}])
    assert count(conn, "jobs") == 0


def test_a_rolled_back_transaction_leaves_no_job_and_no_key(connect: Connect) -> None:
    conn = connect(autocommit=False)
    definition(conn)
    conn.commit()
    enqueue_one(conn, key="once")
    conn.rollback()
    assert (count(conn, "jobs"), count(conn, "idempotency_keys")) == (0, 0)


def test_a_job_has_plain_defaults(conn: Connection) -> None:
    definition(conn, queue="mail", max_attempts=4)
    [row] = call(conn, "enqueue_job", definition="test", tenant_id=TENANT_A)
    job = job_of(conn, TENANT_A, row["job_id"])
    assert row["status"] == "created"
    assert (job["state"], job["queue"], job["priority"]) == ("queued", "mail", 0)
    assert (job["attempt"], job["max_attempts"], job["version"]) == (0, 4, 1)
    assert (job["payload"], job["source"], job["expires_at"]) == ({}, "manual", None)
    assert job["created_at"] == job["run_at"] == job["queued_at"]


def test_every_given_field_is_stored_with_the_job(conn: Connection) -> None:
    definition(conn)
    given: dict[str, Any] = {
        "queue": "mail",
        "priority": -5,
        "max_attempts": 7,
        "timeout_s": 90,
        "key": "k",
        "limit_key": "customer-1",
        "tags": ["a", "b"],
        "correlation_id": "c-1",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "created_by": "ada",
        "artifact_ref": "file://x",
    }
    job = job_of(conn, TENANT_A, enqueue_one(conn, payload={"a": [1]}, **given))
    expected = given | {"payload": {"a": [1]}, "idempotency_key": given["key"]}
    del expected["key"]
    assert {name: job[name] for name in expected} == expected


def test_a_claim_returns_everything_that_the_worker_needs(conn: Connection) -> None:
    definition(conn, timeout_s=33)
    job = enqueue_one(conn, payload={"a": 1}, tags=["x"], limit_key="l", correlation_id="c")
    [row] = claim(conn, new_worker())
    assert (row["tenant_id"], row["job_id"], row["timeout_s"]) == (TENANT_A, job, 33)
    assert (row["payload"], row["tags"], row["limit_key"]) == ({"a": 1}, ["x"], "l")
    assert (row["attempt"], row["correlation_id"]) == (1, "c")


# Times.


def test_a_delay_schedules_the_job(conn: Connection) -> None:
    definition(conn)
    job = job_of(conn, TENANT_A, enqueue_one(conn, delay_s=90.5))
    assert job["state"] == "scheduled"
    assert job["run_at"] - job["created_at"] == timedelta(seconds=90.5)
    assert job["queued_at"] is None


def test_a_time_in_the_past_means_now(conn: Connection) -> None:
    definition(conn)
    job = job_of(conn, TENANT_A, enqueue_one(conn, run_at="2001-02-03T04:05:06Z"))
    assert job["state"] == "queued"
    assert job["run_at"] == job["created_at"]


def test_the_later_of_a_delay_and_a_time_applies(conn: Connection, clock: Clock) -> None:
    definition(conn)
    later = clock.now() + timedelta(hours=1)
    jobs = [
        enqueue_one(conn, delay_s=60, run_at=later.isoformat()),
        enqueue_one(conn, delay_s=7200, run_at=later.isoformat()),
    ]
    run_at = [job_of(conn, TENANT_A, job)["run_at"] for job in jobs]
    assert run_at[0] == later
    assert run_at[1] > later


@pytest.mark.parametrize("field", ["run_at", "delay_s"])
def test_more_than_a_year_ahead_needs_far_future(conn: Connection, field: str) -> None:
    definition(conn)
    days = 400
    values = {
        "run_at": (datetime.now(UTC) + timedelta(days=days)).isoformat(),
        "delay_s": days * 86400,
    }
    given: dict[str, Any] = {field: values[field]}
    with refused("JF002", field=field):
        enqueue_one(conn, **given)
    job = enqueue_one(conn, **given, far_future=True)
    assert state_of(conn, TENANT_A, job) == "scheduled"


def test_an_expiry_is_given_as_a_time_or_as_seconds(conn: Connection) -> None:
    definition(conn)
    job = job_of(conn, TENANT_A, enqueue_one(conn, expires_in_s=60))
    assert job["expires_at"] - job["created_at"] == timedelta(seconds=60)
    job = job_of(conn, TENANT_A, enqueue_one(conn, expires_at="2999-01-01T00:00:00+01:00"))
    assert job["expires_at"] == datetime(2998, 12, 31, 23, tzinfo=UTC)


def test_a_job_that_expired_before_it_started_never_runs(conn: Connection, clock: Clock) -> None:
    definition(conn)
    job = enqueue_one(conn, expires_in_s=60)
    clock.travel(seconds=61)
    assert claim(conn, new_worker()) == []
    ended = job_of(conn, TENANT_A, job)
    assert (ended["state"], ended["cancel_reason"], ended["attempt"]) == ("canceled", "expired", 0)


# Definitions.


def test_a_version_can_be_named_in_two_ways(conn: Connection) -> None:
    definition(conn, "test", 1)
    definition(conn, "test", 2)
    jobs = [
        enqueue_one(conn, definition="test"),
        enqueue_one(conn, definition="test@1"),
        enqueue_one(conn, definition="test", version=1),
    ]
    assert [job_of(conn, TENANT_A, job)["version"] for job in jobs] == [2, 1, 1]


def test_without_a_version_the_newest_active_one_is_used(conn: Connection) -> None:
    definition(conn, "test", 1, queue="old")
    definition(conn, "test", 2)
    definition(conn, "test", 3, is_active=False)
    assert job_of(conn, TENANT_A, enqueue_one(conn))["version"] == 2


@pytest.mark.parametrize("name", ["absent", "test@9"])
def test_an_unknown_definition_is_refused(conn: Connection, name: str) -> None:
    definition(conn)
    with refused("JF009", definition=name):
        enqueue_one(conn, definition=name)


def test_an_inactive_definition_accepts_no_jobs_but_its_queued_ones_run(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn)
    definition(conn, is_active=False)
    with refused("JF010", definition="test"):
        enqueue_one(conn)
    with refused("JF010", definition="test"):
        enqueue_one(conn, definition="test@1")
    assert [row["job_id"] for row in claim(conn, new_worker())] == [job]


# The owner of a job. test_tenancy.py has more tests of tenants.


def test_without_a_tenant_nothing_is_enqueued(conn: Connection, connect: Connect) -> None:
    definition(conn)
    with refused("JF001"):
        call(connect("client_login"), "enqueue_job", definition="test")
    with refused("JF001"):
        call(connect("client_login"), "enqueue_job", definition="test", tenant_id=TENANT_A)
    with refused("JF001"):
        call(conn, "enqueue_job", definition="test")
    assert count(conn, "jobs") == 0


def test_the_tenant_of_the_transaction_owns_the_job(conn: Connection, connect: Connect) -> None:
    definition(conn)
    with as_tenant(connect("client_login"), TENANT_A) as client:
        [row] = call(client, "enqueue_job", definition="test")
    assert job_of(conn, TENANT_A, row["job_id"])["tenant_id"] == TENANT_A
    with refused("JF006"), as_tenant(connect("service_login"), TENANT_A) as service:
        call(service, "enqueue_job", definition="test", tenant_id=TENANT_B)


# Sizes.


def test_a_payload_over_256_kib_is_refused(conn: Connection) -> None:
    definition(conn)
    enqueue_one(conn, payload={"text": "x" * 255 * KIB})
    with refused("JF007", field="payload", limit=256 * KIB, index=0):
        enqueue_one(conn, payload={"text": "x" * 257 * KIB})
    assert count(conn, "jobs") == 1


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("enqueue_job", {"definition": "test", "payload": Jsonb({"text": "x" * 257 * KIB})}),
        ("enqueue_payloads", {"definition": "test", "payloads": [{"text": "x" * 257 * KIB}]}),
        ("enqueue_jobs", {"jobs": [{"definition": "test", "payload": {"t": "x" * 257 * KIB}}]}),
    ],
)
def test_the_refusal_of_a_large_payload_says_how_to_fix_it(
    conn: Connection, function: str, arguments: dict[str, Any]
) -> None:
    definition(conn)
    with pytest.raises(psycopg.Error) as caught:
        call(conn, function, **arguments, tenant_id=TENANT_A)
    assert caught.value.sqlstate == "JF007"
    assert "enqueue a reference" in (caught.value.diag.message_hint or "")


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return {"a": value} if depth else {}


def test_a_payload_over_64_levels_is_refused(conn: Connection) -> None:
    definition(conn)
    enqueue_one(conn, payload=nested(64))
    with refused("JF007", field="payload", limit=64):
        enqueue_one(conn, payload=nested(65))
    with refused("JF007", field="payload", limit=64):
        enqueue_one(conn, payload={"a": [[[nested(62)]]]})
    assert count(conn, "jobs") == 1


def test_a_batch_has_at_most_50000_jobs(conn: Connection) -> None:
    with refused("JF002", field="jobs"):
        enqueue(conn, n=50001)


def test_a_large_batch_is_enqueued_completely(conn: Connection) -> None:
    definition(conn)
    assert len(set(enqueue(conn, n=20_000))) == 20_000
    assert count(conn, "jobs") == 20_000


def test_jobs_of_two_tenants_may_be_identical(conn: Connection) -> None:
    definition(conn)
    tenants = [uuid4() for _ in range(3)]
    jobs = {enqueue_one(conn, tenant, key="same") for tenant in tenants}
    assert len(jobs) == 3
