"""Rates: in no period do more jobs start than its tokens and the burst allow.

A bucket is read at some moment during a call, so a period is measured from the beginning of the
call of its first start to the end of the call of its last: it is at least as long as the bucket
measured it.
"""

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from uuid import UUID

import pytest
from cluster import Clock, Connect, Connection, Database, connect_to, fresh_database
from sql.claimer_threads import Fleet, Tally
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Json,
    Row,
    call,
    complete,
    definition,
    enqueue,
    enqueue_one,
    new_worker,
    refused,
)
from sql.limit_kinds import KINDS, reset_all
from sql.uncached_claim import claim

from jobforge.embedded import PostgresServer


@dataclass(frozen=True, slots=True)
class Started:
    """The jobs that one claim started, and when the claim began and ended."""

    jobs: int
    began: datetime
    ended: datetime


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


def _check_windows(started: list[Started], limit: int, period: timedelta, burst: int) -> None:
    """Check the rate limit for every period that begins and ends with a start."""
    started = sorted(started, key=lambda claim: claim.began)
    sums = [0, *accumulate(claim.jobs for claim in started)]
    for first, begun in enumerate(started):
        end = begun.ended
        for last in range(first, len(started)):
            end = max(end, started[last].ended)
            length = end - begun.began
            allowed = burst + limit * (length / period)
            assert sums[last + 1] - sums[first] <= allowed, f"{first} to {last} in {length}"


def _claim_at(conn: Connection, clock: Clock, worker: UUID, limit: int = 100) -> Started:
    began = clock.now()
    jobs = claim(conn, worker, limit=limit)
    return Started(len(jobs), began, clock.now())


@pytest.mark.parametrize("burst", [None, 1, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_no_period_has_more_starts_than_its_rate_and_burst(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID, kind: str, burst: int | None
) -> None:
    settings = {"rate_limit": 10, "rate_period_s": 60, "rate_burst": burst}
    KINDS[kind].put(conn, settings)
    enqueue(conn, n=500, limit_key="red")
    claimers = [connect("worker_login") for _ in range(3)]
    chance = random.Random(f"{kind}/{burst}")  # noqa: S311 - repeatable, not secret
    started = []
    for _ in range(60):
        clock.travel(seconds=chance.choice([0, 0, 1, 5, 12, 40, 200]))
        claimer, limit = chance.choice(claimers), chance.choice([1, 3, 100])
        started.append(_claim_at(claimer, clock, worker, limit))
    _check_windows(started, 10, timedelta(seconds=60), burst or 10)
    # Nor slower than allowed: a claim without a limit gets all available tokens.
    clock.travel(hours=1)
    assert _claim_at(conn, clock, worker).jobs == (burst or 10)


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("kind", KINDS)
def test_a_rate_is_kept_with_several_claimers_on_the_real_clock(
    conn: Connection, connect: Connect, kind: str
) -> None:
    KINDS[kind].put(conn, {"rate_limit": 100, "rate_period_s": 1, "rate_burst": 10})
    enqueue(conn, n=60, limit_key="red")
    watch = [connect() for _ in range(4)]
    tally = Tally(60)
    started: list[Started] = []

    def turn(number: int, conn: Connection, worker: UUID) -> bool:
        began = _now(watch[number])
        jobs = claim(conn, worker, limit=3)
        if not jobs:
            tally.wait()
            return not tally.is_full
        started.append(Started(len(jobs), began, _now(watch[number])))
        complete(conn, worker, jobs)
        tally.add(jobs)
        return not tally.is_full

    Fleet(connect, size=4).run(turn)
    _check_windows(started, 100, timedelta(seconds=1), 10)


def _now(conn: Connection) -> datetime:
    [row] = conn.execute("select jobforge_private.now() as now").fetchall()
    now = row["now"]
    assert isinstance(now, datetime)
    return now


# One bucket for each subject.


def test_tenants_share_the_rate_of_a_definition(conn: Connection, worker: UUID) -> None:
    definition(conn, rate_limit=3, rate_period_s=3600)
    enqueue(conn, TENANT_A, n=5)
    enqueue(conn, TENANT_B, n=5)
    assert len(claim(conn, worker, limit=10)) == 3


def test_tenants_have_separate_rates(conn: Connection, worker: UUID) -> None:
    KINDS["tenant"].put(conn, {"rate_limit": 3, "rate_period_s": 3600})
    enqueue(conn, TENANT_A, n=5)
    enqueue(conn, TENANT_B, n=5, definition="plain")
    assert _tenants(_claim_all(conn, worker)) == {TENANT_A: 3, TENANT_B: 3}


def test_keys_have_separate_rates(conn: Connection, worker: UUID) -> None:
    definition(conn, rate_limit_per_key=2, rate_period_per_key_s=3600)
    for key in ("red", "green"):
        enqueue(conn, TENANT_A, n=5, limit_key=key)
        enqueue(conn, TENANT_B, n=5, limit_key=key)
    enqueue(conn, TENANT_A, n=3)
    assert _tenants(_claim_all(conn, worker)) == {TENANT_A: 4 + 3, TENANT_B: 4}


def test_queues_have_separate_rates(conn: Connection, worker: UUID) -> None:
    KINDS["queue"].put(conn, {"rate_limit": 2, "rate_period_s": 3600})
    enqueue(conn, TENANT_A, n=5)
    enqueue(conn, TENANT_B, n=5)
    enqueue(conn, TENANT_B, n=5, queue="other")
    assert len(_claim_all(conn, worker)) == 2
    assert len(claim(conn, worker, "other", limit=10)) == 5


def _claim_all(conn: Connection, worker: UUID) -> list[Row]:
    jobs: list[Row] = []
    while more := claim(conn, worker, limit=100):
        jobs += more
    return jobs


def _tenants(jobs: list[Row]) -> dict[UUID, int]:
    return {
        tenant: sum(job["tenant_id"] == tenant for job in jobs) for tenant in (TENANT_A, TENANT_B)
    }


def test_the_lowest_of_several_rates_and_caps_applies(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    definition(conn, rate_limit=5, rate_period_s=60, max_running=4)
    KINDS["tenant"].put(conn, {"rate_limit": 2, "rate_period_s": 60})
    enqueue(conn, n=20)
    assert len(claim(conn, worker, limit=20)) == 2  # the tenant's rate
    clock.travel(minutes=2)
    assert len(claim(conn, worker, limit=20)) == 2  # the cap and the tenant's rate
    clock.travel(minutes=2)
    assert claim(conn, worker, limit=20) == []  # the cap


def test_jobs_that_end_return_no_token(conn: Connection, worker: UUID) -> None:
    definition(conn, rate_limit=3, rate_period_s=3600)
    enqueue(conn, n=5)
    complete(conn, worker, claim(conn, worker, limit=5))
    assert claim(conn, worker, limit=5) == []


def test_a_claim_that_is_rolled_back_returns_its_tokens(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    definition(conn, rate_limit=3, rate_period_s=3600)
    enqueue(conn, n=5)
    claiming = connect(autocommit=False)
    assert len(claim(claiming, worker, limit=5)) == 3
    claiming.rollback()
    assert len(claim(conn, worker, limit=5)) == 3


def test_a_rate_does_not_delay_plain_jobs(conn: Connection, worker: UUID) -> None:
    definition(conn, rate_limit=1, rate_period_s=3600)
    enqueue(conn, n=50, priority=10)
    plain = enqueue(conn, n=10, definition="plain")
    claim(conn, worker)
    assert {job["job_id"] for job in claim(conn, worker, limit=10)} == set(plain)


def test_a_clock_that_is_set_back_and_forward_fills_no_bucket(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    definition(conn, rate_limit=4, rate_period_s=3600)
    enqueue(conn, n=20)
    taken = 0
    for _ in range(4):
        taken += len(claim(conn, worker))
        clock.travel(hours=-1)
        taken += len(claim(conn, worker))
        clock.travel(hours=1)
    assert taken == 4


@pytest.mark.parametrize("kind", KINDS)
def test_explain_says_when_the_next_job_may_start(
    conn: Connection, clock: Clock, worker: UUID, kind: str
) -> None:
    KINDS[kind].put(conn, {"rate_limit": 2, "rate_period_s": 3600})
    *_, waiting = enqueue(conn, n=3, limit_key="red")
    assert len(claim(conn, worker, limit=3)) == 2
    [reason] = [
        row
        for row in call(conn, "explain_job", job_id=waiting, tenant_id=TENANT_A)
        if row["code"] == f"{kind}_rate_limited"
    ]
    wait = datetime.fromisoformat(reason["detail"]["next_at"]) - clock.now()
    clock.travel(seconds=wait.total_seconds() - 60)
    assert claim(conn, worker) == []
    clock.travel(seconds=60)
    assert [job["job_id"] for job in claim(conn, worker)] == [waiting]


def test_a_rate_also_counts_starts_of_retries(conn: Connection, clock: Clock, worker: UUID) -> None:
    definition(conn, rate_limit=2, rate_period_s=3600, backoff_base_s=0)
    enqueue_one(conn)
    for _ in range(2):
        complete(conn, worker, claim(conn, worker), "failed", retry_in_s=0)
    assert claim(conn, worker) == []
    clock.travel(hours=1)
    assert len(claim(conn, worker)) == 1


@pytest.mark.parametrize("period_s", ["NaN", "Infinity", 0, 1e-300, 1e308, True])
@pytest.mark.parametrize("kind", KINDS)
def test_an_unusable_period_is_refused(conn: Connection, kind: str, period_s: Json) -> None:
    """It would fail every claim that uses it, or the retention."""
    with refused("JF002"):
        KINDS[kind].put(conn, {"rate_limit": 5, "rate_period_s": period_s})
