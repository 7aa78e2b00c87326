"""Caps: free slots are used at once, the cap is not exceeded, and other jobs are not delayed."""

from collections.abc import Iterator
from contextlib import closing
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection, Database, connect_to, fresh_database
from sql.claimer_threads import Fleet
from sql.engine import (
    TENANT_A,
    TENANT_B,
    call,
    complete,
    count,
    definition,
    enqueue,
    new_worker,
    reap,
    release,
)
from sql.limit_kinds import KINDS, reset_all
from sql.uncached_claim import claim

from jobforge.embedded import PostgresServer


@pytest.fixture(scope="module")
def database(server: PostgresServer) -> Iterator[Database]:
    with fresh_database(server) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def clock(database: Database) -> Iterator[Clock]:
    with closing(connect_to(database.url)) as conn:
        yield Clock(conn)


@pytest.fixture
def worker(conn: Connection) -> UUID:
    reset_all(conn)
    return new_worker()


@pytest.mark.parametrize("kind", KINDS)
def test_a_cap_is_used_in_full(conn: Connection, worker: UUID, kind: str) -> None:
    KINDS[kind].cap(conn, 3)
    enqueue(conn, n=10, limit_key="red")
    assert len(claim(conn, worker, limit=2)) == 2
    assert len(claim(conn, worker, limit=5)) == 1
    assert claim(conn, worker, limit=5) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_end_of_an_attempt_frees_its_slot(
    conn: Connection, clock: Clock, worker: UUID, kind: str
) -> None:
    KINDS[kind].cap(conn, 1)
    enqueue(conn, n=10, limit_key="red")
    for outcome in ("succeeded", "failed", "timed_out", "crashed", "canceled", "snoozed"):
        [job] = claim(conn, worker, limit=5)
        complete(conn, worker, [job], outcome, retry_in_s=7200)
    [job] = claim(conn, worker, limit=5)
    release(conn, worker, [job])
    claim(conn, worker, limit=5)
    clock.travel(minutes=1)
    reap(conn)
    assert len(claim(conn, worker, limit=5)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_that_is_rolled_back_uses_no_slot(
    conn: Connection, connect: Connect, worker: UUID, kind: str
) -> None:
    KINDS[kind].cap(conn, 1)
    enqueue(conn, n=2, limit_key="red")
    claiming = connect(autocommit=False)
    assert len(claim(claiming, worker, limit=2)) == 1
    assert claim(conn, worker, limit=2) == []
    claiming.rollback()
    assert len(claim(conn, worker, limit=2)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_two_claims_in_one_transaction_share_a_cap(
    conn: Connection, connect: Connect, worker: UUID, kind: str
) -> None:
    KINDS[kind].cap(conn, 3)
    enqueue(conn, n=10, limit_key="red")
    claiming = connect(autocommit=False)
    assert [len(claim(claiming, worker, limit=2)) for _ in range(3)] == [2, 1, 0]
    claiming.commit()
    assert claim(conn, worker, limit=2) == []


def test_tenants_share_the_cap_of_a_definition(conn: Connection, worker: UUID) -> None:
    definition(conn, max_running=1)
    enqueue(conn, TENANT_A, n=3)
    enqueue(conn, TENANT_B, n=3)
    tenants = set()
    for _ in range(6):
        [job] = claim(conn, worker, limit=6)
        assert claim(conn, worker, limit=6) == []
        tenants.add(job["tenant_id"])
        complete(conn, worker, [job])
    assert tenants == {TENANT_A, TENANT_B}


def test_keys_and_tenants_do_not_share_the_cap_of_a_key(conn: Connection, worker: UUID) -> None:
    definition(conn, max_running_per_key=1)
    for tenant in (TENANT_A, TENANT_B):
        for key in ("red", "green"):
            enqueue(conn, tenant, n=3, limit_key=key)
    jobs = claim(conn, worker, limit=12)
    assert len({(job["tenant_id"], job["limit_key"]) for job in jobs}) == len(jobs) == 4


def test_jobs_without_a_key_are_exempt_from_the_cap_of_a_key(
    conn: Connection, worker: UUID
) -> None:
    definition(conn, max_running_per_key=1)
    enqueue(conn, n=5)
    assert len(claim(conn, worker, limit=5)) == 5


def test_the_lowest_of_several_caps_applies(conn: Connection, worker: UUID) -> None:
    definition(conn, max_running=5, max_running_per_key=2)
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"max_running": 3})
    call(conn, "put_queue", queue="default", settings={"max_running": 4})
    for tenant in (TENANT_A, TENANT_B):
        for key in ("red", "green", "blue"):
            enqueue(conn, tenant, n=3, limit_key=key)
    jobs = claim(conn, worker, limit=18)
    by_tenant = [sum(job["tenant_id"] == t for job in jobs) for t in (TENANT_A, TENANT_B)]
    by_key = [
        sum((job["tenant_id"], job["limit_key"]) == (t, k) for job in jobs)
        for t in (TENANT_A, TENANT_B)
        for k in ("red", "green", "blue")
    ]
    assert len(jobs) == 4
    assert by_tenant[0] <= 3
    assert max(by_key) <= 2


# Other jobs in the same queue.


@pytest.mark.parametrize("kind", ["definition", "key"])
def test_a_full_group_in_front_does_not_hold_up_plain_jobs(
    conn: Connection, worker: UUID, kind: str
) -> None:
    KINDS[kind].cap(conn, 1)
    enqueue(conn, n=50, priority=10, limit_key="red")
    plain = enqueue(conn, n=20, definition="plain")
    claim(conn, worker, limit=1)
    assert {job["job_id"] for job in claim(conn, worker, limit=20)} == set(plain)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_that_is_being_claimed_does_not_block_others(
    conn: Connection, connect: Connect, worker: UUID, kind: str
) -> None:
    KINDS[kind].cap(conn, 2)
    enqueue(conn, n=5, priority=10, limit_key="red")
    free = enqueue(conn, uuid4(), n=5, definition="plain", queue="other")
    claiming = connect(autocommit=False)
    assert len(claim(claiming, worker, limit=1)) == 1
    conn.execute("set lock_timeout = '1ms'")  # it must not wait at all
    assert claim(conn, worker, limit=5) == []
    assert {job["job_id"] for job in claim(conn, worker, "other", limit=5)} == set(free)


def test_plain_jobs_drain_while_a_cap_is_full(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    definition(conn, max_running=1)
    capped = enqueue(conn, n=20, priority=10)
    plain = enqueue(conn, n=200, definition="plain")
    [held] = claim(conn, worker)
    done = Fleet(connect).drain(200)
    assert {job["job_id"] for job in done} == set(plain)
    assert held["job_id"] in capped
    assert count(conn, "jobs") == 20
