"""Functions that the server calls for each request: rate limits and repeated requests."""

import hashlib
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection
from sql.background_call import in_background, wait_until_blocked
from sql.engine import TENANT_A, TENANT_B, Row, call, count, definition, erase, refused

JOBS = [{"definition": "test", "payload": {"n": n}} for n in range(3)]


@pytest.fixture(scope="module")
def conn(shared_conn: Connection) -> Connection:
    definition(shared_conn)
    return shared_conn


@pytest.fixture
def tenant() -> UUID:
    return uuid4()


def take(conn: Connection, bucket: str, rate: Any = 1.0, burst: Any = 1) -> tuple[bool, float]:
    [row] = call(conn, "take_request", bucket=bucket, rate=rate, burst=burst)
    return row["allowed"], row["retry_after_s"]


def request_jobs(
    conn: Connection,
    tenant: UUID,
    body: bytes = b"body",
    key: Any = "request-1",
    jobs: Any = JOBS,
) -> list[Row]:
    return call(
        conn,
        "enqueue_jobs_once",
        request_key=key,
        body_hash=hashlib.sha256(body).digest(),
        jobs=jobs,
        tenant_id=tenant,
    )


# Rates.


def test_a_bucket_gives_its_burst_and_then_its_rate(shared_clock: Clock, conn: Connection) -> None:
    bucket = f"key:{uuid4()}"
    # Slow enough that the real time between the calls refills nothing.
    assert [take(conn, bucket, 0.001, 3)[0] for _ in range(4)] == [True, True, True, False]
    allowed, retry_after_s = take(conn, bucket, 0.001, 3)
    assert (allowed, 990 < retry_after_s <= 1000) == (False, True)
    shared_clock.travel(seconds=1001)
    assert [take(conn, bucket, 0.001, 3)[0] for _ in range(2)] == [True, False]
    shared_clock.travel(days=30)
    assert [take(conn, bucket, 0.001, 3)[0] for _ in range(4)] == [True, True, True, False]


def test_buckets_are_independent(conn: Connection) -> None:
    buckets = [f"tenant:{uuid4()}" for _ in range(2)]
    assert [take(conn, bucket, 0.001)[0] for bucket in (*buckets, *buckets)] == [
        True,
        True,
        False,
        False,
    ]


def test_two_concurrent_requests_do_not_both_take_the_last_token(connect: Connect) -> None:
    first, second = connect(autocommit=False), connect()
    bucket = f"key:{uuid4()}"
    take(first, bucket, 0.001, 2)
    first.commit()
    assert take(first, bucket, 0.001, 2)[0]
    with in_background(second, lambda conn: take(conn, bucket, 0.001, 2)) as taking:
        wait_until_blocked(connect(), second, taking)
        first.commit()
        assert not taking.result(timeout=30)[0]


def test_an_invalid_rate_is_refused(conn: Connection) -> None:
    for rate, burst in [
        (0.0, 1),
        (-1.0, 1),
        (float("nan"), 1),
        (float("inf"), 1),
        (None, 1),
        (1.0, 0),
        (1.0, None),
    ]:
        with refused("JF002", field="rate"):
            take(conn, "key:x", rate, burst)
    for bucket in (None, "", "b" * 201):
        with refused("JF002", field="bucket"):
            call(conn, "take_request", bucket=bucket, rate=1.0, burst=1)


# Repeated requests.


def test_a_repeated_request_has_the_same_response_and_creates_no_jobs(
    conn: Connection, tenant: UUID
) -> None:
    first, second = request_jobs(conn, tenant), request_jobs(conn, tenant)
    assert [row["replayed"] for row in first + second] == [False] * 3 + [True] * 3
    assert [row["index"] for row in second] == [0, 1, 2]
    assert [{**row, "replayed": True} for row in first] == second
    assert count(conn, "jobs", tenant) == 3


def test_a_key_used_with_another_body_is_refused(conn: Connection, tenant: UUID) -> None:
    request_jobs(conn, tenant)
    with refused("JF013", request_key="request-1"):
        request_jobs(conn, tenant, b"another")
    assert count(conn, "jobs", tenant) == 3


def test_a_key_belongs_to_its_tenant(conn: Connection) -> None:
    answers = [request_jobs(conn, tenant, tenant.bytes) for tenant in (TENANT_A, TENANT_B)]
    assert [row["replayed"] for rows in answers for row in rows] == [False] * 6


def test_a_request_that_was_refused_may_be_corrected(conn: Connection, tenant: UUID) -> None:
    with refused("JF009"):
        request_jobs(conn, tenant, jobs=[{"definition": "unknown"}])
    assert [row["replayed"] for row in request_jobs(conn, tenant, b"corrected")] == [False] * 3


def test_a_key_is_free_again_after_a_day(
    shared_clock: Clock, conn: Connection, tenant: UUID
) -> None:
    request_jobs(conn, tenant)
    shared_clock.travel(hours=23)
    assert request_jobs(conn, tenant)[0]["replayed"]
    shared_clock.travel(hours=2)
    assert not request_jobs(conn, tenant, b"another")[0]["replayed"]
    shared_clock.travel(hours=25)
    [swept] = call(conn, "apply_retention")
    assert swept["apply_retention"]["idempotent_requests"] >= 1
    assert count(conn, "idempotent_requests", tenant) == 0
    assert conn.execute("select from jobforge.request_rates").rowcount == 0


def test_a_duplicate_request_in_progress_waits_for_the_first(connect: Connect) -> None:
    observer, first, second = connect(), connect(autocommit=False), connect()
    definition(observer)
    for tenant, end in ((TENANT_A, first.commit), (TENANT_B, first.rollback)):
        answer = request_jobs(first, tenant)
        with in_background(second, partial(request_jobs, tenant=tenant)) as twin:
            wait_until_blocked(observer, second, twin)
            end()
            rows = twin.result(timeout=30)
        replayed = tenant == TENANT_A
        assert [row["replayed"] for row in rows] == [replayed] * 3
        assert ([row["job_id"] for row in rows] == [row["job_id"] for row in answer]) == replayed
        assert count(observer, "jobs", tenant) == 3


def test_an_invalid_key_or_hash_is_refused(conn: Connection, tenant: UUID) -> None:
    for key in (None, "", "k" * 256, "two\nlines"):
        with refused("JF002", field="request_key"):
            request_jobs(conn, tenant, key=key)
    for body_hash in (None, b"", b"short"):
        with refused("JF002", field="body_hash"):
            call(
                conn,
                "enqueue_jobs_once",
                request_key="k",
                body_hash=body_hash,
                jobs=JOBS,
                tenant_id=tenant,
            )


def test_a_deleted_tenant_leaves_no_rows_of_the_api(conn: Connection, tenant: UUID) -> None:
    digest = hashlib.sha256(b"key").digest()
    given = {"name": "n", "role": "viewer", "lookup": "deletion", "hash": digest}
    [key] = call(conn, "create_api_key", **given, tenant_id=tenant)
    request_jobs(conn, tenant)
    call(conn, "start_operation", kind="cancel", filter={}, tenant_id=tenant)
    for bucket in (f"tenant:{tenant}", f"key:{key['create_api_key']}"):
        take(conn, bucket)
    counts = erase(conn, tenant)
    assert (counts["api_keys"], counts["idempotent_requests"], counts["operations"]) == (1, 1, 1)
    for table in ("api_keys", "idempotent_requests", "failure_notes"):
        assert count(conn, table, tenant) == 0
    assert count(conn, "operations", tenant) == 1  # the erasure itself
    left = conn.execute(
        "select from jobforge.request_rates where bucket in (%s, %s)",
        [f"tenant:{tenant}", f"key:{key['create_api_key']}"],
    )
    assert left.rowcount == 0
