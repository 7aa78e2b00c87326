"""Tenants take turns by weight: a flood of one tenant does not delay the jobs of others."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from uuid import UUID, uuid4

import pytest
from cluster import Connect, Connection, connect_to, fresh_database
from sql.claimer_threads import Fleet, Tally
from sql.engine import TENANT_A, TENANT_B, Row, call, claim, definition, enqueue, new_worker

from jobforge.embedded import PostgresServer

FLOOD = 100_000
SMALL = [uuid4() for _ in range(50)]
SMALL_JOBS = 20
# The number of jobs that a flooding tenant may get before all jobs of the small tenants are done.
FIRST_CLAIMS = 2_500


@pytest.fixture(scope="module")
def flooded(server: PostgresServer) -> Iterator[str]:
    """A database in which one tenant queued a flood before fifty other tenants queued a few
    jobs."""
    with fresh_database(server) as database:
        with connect_to(database.url) as conn:
            definition(conn)
            for _ in range(FLOOD // 50_000):
                enqueue(conn, TENANT_A, n=50_000)
            for tenant in SMALL:
                enqueue(conn, tenant, n=SMALL_JOBS)
        yield database.name


@pytest.fixture
def connect_flooded(server: PostgresServer, flooded: str) -> Iterator[Connect]:
    with fresh_database(server, template=flooded) as database, ExitStack() as opened:

        def _connect(role: str | None = None, *, autocommit: bool = True) -> Connection:
            url = database.url_as(role) if role else database.url
            return opened.enter_context(connect_to(url, autocommit=autocommit))

        yield _connect


def _claim_first(connect: Connect, wanted: int, *, claimers: int, batch: int) -> list[Row]:
    """Return the first jobs that concurrent claimers get, with claims of this batch size."""
    tally = Tally(wanted)

    def turn(_: int, conn: Connection, worker: UUID) -> bool:
        jobs = claim(conn, worker, limit=batch)
        assert jobs, "a claim returned no job, with a flood in the queue"
        tally.add(jobs)
        return not tally.is_full

    Fleet(connect, claimers).run(turn)
    return tally.jobs[:wanted]


@pytest.mark.parametrize(("claimers", "batch"), [(1, 50), (1, 1), (8, 50), (8, 1)])
def test_a_flood_does_not_delay_the_jobs_of_other_tenants(
    connect_flooded: Connect, claimers: int, batch: int
) -> None:
    jobs = _claim_first(connect_flooded, FIRST_CLAIMS, claimers=claimers, batch=batch)
    claimed = Counter(job["tenant_id"] for job in jobs)
    assert {tenant: claimed[tenant] for tenant in SMALL} == dict.fromkeys(SMALL, SMALL_JOBS)


@pytest.mark.parametrize(("claimers", "batch"), [(1, 50), (1, 7), (1, 1), (8, 50), (8, 1)])
def test_shares_are_proportional_to_weights(
    conn: Connection, connect: Connect, claimers: int, batch: int
) -> None:
    definition(conn)
    call(conn, "put_tenant", tenant_id=TENANT_B, settings={"weight": 3})
    for tenant in (TENANT_A, TENANT_B):
        enqueue(conn, tenant, n=3_000)
    jobs = _claim_first(connect, 2_000, claimers=claimers, batch=batch)
    heavy = sum(job["tenant_id"] == TENANT_B for job in jobs)
    assert heavy == pytest.approx(1_500, rel=0.1)


def test_equal_tenants_take_turns_job_by_job(conn: Connection) -> None:
    definition(conn)
    tenants = SMALL[:5]
    for tenant in tenants:
        enqueue(conn, tenant, n=4)
    turns = [claim(conn, new_worker())[0]["tenant_id"] for _ in range(20)]
    for start in range(0, 20, 5):
        assert set(turns[start : start + 5]) == set(tenants)


def test_hundreds_of_tenants_take_turns_regardless_of_their_number_of_jobs(
    conn: Connection,
) -> None:
    definition(conn)
    tenants = [uuid4() for _ in range(300)]
    for number, tenant in enumerate(tenants):
        enqueue(conn, tenant, n=500 if number % 100 == 0 else 2)
    turns = [job["tenant_id"] for _ in range(6) for job in claim(conn, new_worker(), limit=100)]
    assert Counter(turns[:300]) == Counter(tenants)
    assert Counter(turns[300:]) == Counter(tenants)


def test_a_tenant_without_competitors_gets_everything(conn: Connection) -> None:
    definition(conn)
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"weight": 1})
    call(conn, "put_tenant", tenant_id=TENANT_B, settings={"weight": 1000})
    enqueue(conn, TENANT_A, n=120)
    assert [len(claim(conn, new_worker(), limit=50)) for _ in range(3)] == [50, 50, 20]


def test_a_batch_is_filled_regardless_of_the_weights(conn: Connection) -> None:
    definition(conn)
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"weight": 1000})
    enqueue(conn, TENANT_A, n=3)
    enqueue(conn, TENANT_B, n=40)
    assert len(claim(conn, new_worker(), limit=20)) == 20
