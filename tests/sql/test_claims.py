"""Claims: they never return nothing while a job can be taken, and take the best jobs first."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from uuid import UUID, uuid4

import pytest
from cluster import Connect, Connection, Database, connect_to, fresh_database
from sql import uncached_claim
from sql.background_call import in_background, is_blocked_or_done
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    as_tenant,
    call,
    definition,
    enqueue,
    enqueue_one,
    new_worker,
    refused,
)
from sql.limit_kinds import reset_all
from sql.mutation import close_gate, make_pausable, open_gate, pause_at_reading
from sql.uncached_claim import claim

from jobforge.embedded import PostgresServer


@pytest.fixture(scope="module")
def database(server: PostgresServer) -> Iterator[Database]:
    with fresh_database(server) as fresh:
        yield fresh


@pytest.fixture(autouse=True, params=[{}, {"small": True}], ids=["new session", "few were left"])
def _claim_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with the full walk, and with the query for all ready jobs that comes
    before it."""
    monkeypatch.setattr(uncached_claim, "remembered", request.param)


@pytest.fixture
def worker(conn: Connection) -> UUID:
    reset_all(conn)
    return new_worker()


def _ids(jobs: list[Row]) -> set[UUID]:
    return {job["job_id"] for job in jobs}


# A claim must not return nothing while a job can be taken. A new session starts at a random tenant,
# so these tests use several sessions.


def _claim_once_each(connect: Connect, sessions: int = 5, **options: list[str]) -> list[int]:
    """Return how many jobs each of several new sessions gets when it claims one and rolls back."""
    got = []
    for _ in range(sessions):
        asking = connect(autocommit=False)
        got.append(len(claim(asking, new_worker(), definitions=options.get("definitions"))))
        asking.rollback()
    return got


@pytest.mark.parametrize("weight", [1, 100])
def test_rows_that_others_are_claiming_do_not_hide_a_job(
    conn: Connection, connect: Connect, worker: UUID, weight: int
) -> None:
    tenants = [uuid4() for _ in range(20)]
    for tenant in tenants:
        call(conn, "put_tenant", tenant_id=tenant, settings={"weight": weight})
        enqueue(conn, tenant, n=3)
    claiming = connect(autocommit=False)
    assert len(claim(claiming, worker, limit=60)) == 60
    enqueue(conn, uuid4())
    assert _claim_once_each(connect) == [1] * 5


@pytest.mark.parametrize("weight", [1, 100])
def test_jobs_that_this_worker_does_not_serve_do_not_hide_a_job(
    conn: Connection, connect: Connect, weight: int
) -> None:
    reset_all(conn)
    tenants = [uuid4() for _ in range(40)]
    for tenant in tenants:
        call(conn, "put_tenant", tenant_id=tenant, settings={"weight": weight})
        enqueue(conn, tenant, n=3, definition="plain")
    enqueue(conn, tenants[20], priority=-1)
    assert _claim_once_each(connect, definitions=["test@1"]) == [1] * 5


def test_a_job_is_found_behind_many_that_this_worker_does_not_serve(
    conn: Connection, worker: UUID
) -> None:
    enqueue(conn, n=5_000, definition="plain")
    job = enqueue_one(conn, priority=-1)
    assert _ids(claim(conn, worker, definitions=["test@1"])) == {job}


def test_jobs_without_a_worker_may_be_deferred_indefinitely(conn: Connection, worker: UUID) -> None:
    enqueue(conn, n=101, definition="plain")
    conn.execute("update jobforge.jobs set deferrals = 32767")
    job = enqueue_one(conn, TENANT_B)
    assert _ids(claim(conn, worker, limit=2, definitions=["test@1"])) == {job}


def test_full_groups_do_not_hide_a_free_one(conn: Connection, worker: UUID) -> None:
    definition(conn, max_running_per_key=1)
    keys = [f"key-{number:03}" for number in range(200)]
    full = [{"definition": "test", "priority": 1, "limit_key": key} for key in keys]
    call(conn, "enqueue_jobs", jobs=full * 2, tenant_id=TENANT_A)
    running: set[UUID] = set()
    while jobs := claim(conn, worker, limit=1_000):
        running |= _ids(jobs)
    assert len(running) == 200
    free = enqueue_one(conn, limit_key="last")
    assert _ids(claim(conn, worker)) == {free}


def test_full_tenants_do_not_hide_a_free_one(conn: Connection, connect: Connect) -> None:
    reset_all(conn)
    for _ in range(50):
        tenant = uuid4()
        call(conn, "put_tenant", tenant_id=tenant, settings={"max_running": 1})
        enqueue(conn, tenant, n=3)
    assert len(claim(conn, new_worker(), limit=100)) > 0
    while claim(conn, new_worker(), limit=100):
        pass
    enqueue(conn, uuid4())
    assert _claim_once_each(connect) == [1] * 5


def test_paused_tenants_do_not_hide_a_free_one(conn: Connection, connect: Connect) -> None:
    reset_all(conn)
    for _ in range(50):
        tenant = uuid4()
        enqueue(conn, tenant, n=3)
        call(conn, "pause_tenant", tenant_id=tenant)
    enqueue(conn, uuid4())
    assert _claim_once_each(connect) == [1] * 5


def test_expired_jobs_do_not_hide_a_live_one(conn: Connection, worker: UUID) -> None:
    enqueue(conn, n=300, priority=1, expires_in_s=0)
    job = enqueue_one(conn)
    assert _ids(claim(conn, worker)) == {job}


def test_unavailable_first_jobs_of_many_tenants_do_not_hide_the_jobs_behind_them(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    tenants = [uuid4() for _ in range(100)]
    for tenant in tenants:
        enqueue(conn, tenant, priority=2)
        enqueue(conn, tenant, priority=1, expires_in_s=0)
        enqueue(conn, tenant)
    other = connect(autocommit=False)
    other.execute("select from jobforge.jobs where priority = 2 for update")
    jobs = claim(conn, worker, limit=100)
    other.rollback()
    assert Counter(job["tenant_id"] for job in jobs) == Counter(tenants)
    assert {job["priority"] for job in jobs} == {0}


def test_every_claim_of_one_finds_a_job_until_none_is_left(conn: Connection) -> None:
    reset_all(conn)
    definition(conn, "capped", max_running=1_000)
    for _ in range(10):
        tenant = uuid4()
        enqueue(conn, tenant, n=5)
        enqueue(conn, tenant, n=5, definition="capped")
    assert [len(claim(conn, new_worker())) for _ in range(101)] == [1] * 100 + [0]


def test_a_batch_is_filled_from_all_available_jobs(conn: Connection, worker: UUID) -> None:
    definition(conn, max_running_per_key=2)
    for tenant in (TENANT_A, TENANT_B):
        for key in range(40):
            enqueue(conn, tenant, n=3, limit_key=f"{key}")
        enqueue(conn, tenant, n=40, definition="plain")
    taken = 0
    while jobs := claim(conn, worker, limit=50):
        taken += len(jobs)
    assert taken == 2 * (40 * 2 + 40)


def test_a_claim_ends_although_other_sessions_lock_all_rows_and_one_of_them_commits(
    server: PostgresServer,
) -> None:
    with fresh_database(server) as own, ExitStack() as opened:
        conn, asking = (opened.enter_context(connect_to(own.url)) for _ in range(2))
        one, other = (opened.enter_context(connect_to(own.url, autocommit=False)) for _ in range(2))
        make_pausable(conn)
        definition(conn)
        asking.execute("set statement_timeout = '20s'")
        stops = 0
        # The claim is stopped at each of its readings of the clock, so at any point of its work.
        for reading in range(1, 8):
            for tenant, holder in ((TENANT_A, one), (TENANT_B, other)):
                enqueue(conn, tenant)
                assert claim(holder, new_worker(), tenants=[tenant])
            close_gate(conn)
            pause_at_reading(asking, reading)
            with in_background(asking, lambda c: claim(c, new_worker())) as jobs:
                stops += is_blocked_or_done(conn, asking, jobs)
                one.commit()
                open_gate(conn)
                assert jobs.result() == []
            other.commit()
        assert stops > 1


# The best jobs first.


def test_within_a_tenant_priority_decides_then_due_time(conn: Connection, worker: UUID) -> None:
    chance = random.Random(7)  # noqa: S311 - repeatable, not secret
    for _ in range(60):
        enqueue(conn, priority=chance.randint(-3, 3))
    jobs = [claim(conn, worker)[0] for _ in range(60)]
    assert jobs == sorted(jobs, key=lambda job: (-job["priority"], job["run_at"], job["job_id"]))


def test_priority_also_decides_between_plain_jobs_and_limited_jobs(
    conn: Connection, worker: UUID
) -> None:
    # 30 groups: a claim reads the heads of 32 of a tenant's groups at a time.
    definition(conn, max_running=1_000, max_running_per_key=1_000)
    chance = random.Random(7)  # noqa: S311 - repeatable, not secret
    for key in range(30):
        enqueue(conn, priority=chance.randint(-30, 30), limit_key=f"{key}")
        enqueue(conn, priority=chance.randint(-30, 30), definition="plain")
    enqueue(conn, priority=99, limit_key="15")
    priorities = [claim(conn, worker)[0]["priority"] for _ in range(61)]
    assert priorities == sorted(priorities, reverse=True)


def test_a_group_with_an_urgent_job_does_not_bring_its_other_jobs_before_plain_ones(
    conn: Connection, worker: UUID
) -> None:
    definition(conn, max_running=1_000)
    low = enqueue(conn, n=5)
    high = [enqueue_one(conn, priority=2), *enqueue(conn, n=5, priority=1, definition="plain")]
    assert _ids(claim(conn, worker, limit=6)) == set(high)
    assert _ids(claim(conn, worker, limit=6)) == set(low)


# Queues and tenants that a claim may use.


def _claim_from(conn: Connection, queues: list[str], limits: list[int]) -> list[str]:
    jobs = call(conn, "claim_jobs", worker_id=new_worker(), queues=queues, limits=limits)
    return sorted(job["queue"] for job in jobs)


@pytest.mark.parametrize("waiting", [3, 4, 40])
def test_tenants_share_a_claim_that_is_too_small_for_all(
    conn: Connection, worker: UUID, waiting: int
) -> None:
    for tenant in (TENANT_A, TENANT_B):
        enqueue(conn, tenant, n=waiting)
    claimed = [job["tenant_id"] for job in claim(conn, worker, limit=4)]
    assert sorted(claimed) == sorted([TENANT_A, TENANT_B] * 2)


def test_each_queue_of_a_claim_has_its_own_limit(conn: Connection) -> None:
    reset_all(conn)
    for queue in ("a", "b", "c", "d"):
        enqueue(conn, n=5, queue=queue)
        enqueue(conn, TENANT_B, n=5, queue=queue)
    assert _claim_from(conn, ["a", "b", "c"], [3, 0, 1]) == ["a", "a", "a", "c"]


def test_a_paused_or_empty_queue_does_not_change_the_limits_of_other_queues(
    conn: Connection,
) -> None:
    reset_all(conn)
    enqueue(conn, n=5, queue="a")
    enqueue(conn, n=5, queue="b")
    call(conn, "pause_queue", queue="a")
    assert _claim_from(conn, ["a", "none", "b"], [5, 5, 2]) == ["b", "b"]


def test_a_claim_is_confined_to_the_tenants_it_names(conn: Connection, worker: UUID) -> None:
    enqueue(conn, TENANT_A, n=3)
    enqueue(conn, TENANT_B, n=3)
    jobs = claim(conn, worker, limit=10, tenants=[TENANT_B, uuid4()])
    assert [job["tenant_id"] for job in jobs] == [TENANT_B] * 3
    assert claim(conn, worker, limit=10, tenants=[]) == []


def test_a_tenant_named_twice_gets_one_turn(conn: Connection, worker: UUID) -> None:
    jobs = enqueue(conn, TENANT_A, n=6)
    got = claim(conn, worker, limit=6, tenants=[TENANT_A, TENANT_A])
    assert sorted(_ids(got)) == sorted(jobs)


def test_tenants_without_jobs_do_not_use_up_a_confined_claim(
    conn: Connection, worker: UUID
) -> None:
    idle = [uuid4() for _ in range(50)]
    call(conn, "put_tenant", tenant_id=idle[0], settings={"weight": 1_000})
    enqueue(conn, TENANT_B, n=6)
    got = [len(claim(conn, worker, limit=2, tenants=[*idle, TENANT_B])) for _ in range(4)]
    assert got == [2, 2, 2, 0]


def test_a_claim_is_confined_to_the_tenant_of_its_transaction(
    conn: Connection, worker: UUID
) -> None:
    enqueue(conn, TENANT_A, n=3)
    enqueue(conn, TENANT_B, n=3)
    with as_tenant(conn, TENANT_B):
        jobs = claim(conn, worker, limit=10)
    assert [job["tenant_id"] for job in jobs] == [TENANT_B] * 3


def test_tenants_that_contradict_the_transaction_are_refused(
    conn: Connection, worker: UUID
) -> None:
    enqueue(conn, TENANT_A, n=3)
    with as_tenant(conn, TENANT_B), refused("JF006"), conn.transaction():
        claim(conn, worker, limit=10, tenants=[TENANT_A])


def test_confined_and_open_claims_of_one_session_do_not_affect_each_other(
    conn: Connection, worker: UUID
) -> None:
    for tenant in (TENANT_A, TENANT_B):
        enqueue(conn, tenant, n=10)
    for tenants in ([TENANT_A], None, [TENANT_B], None):
        assert len(claim(conn, worker, limit=5, tenants=tenants)) == 5
