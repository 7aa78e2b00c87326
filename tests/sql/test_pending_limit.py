"""The limit of a tenant's pending jobs: exact up to 10,000; above, each session caches the count
for seconds."""

from uuid import UUID

import pytest
from cluster import Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    call,
    claim,
    count,
    definition,
    enqueue,
    enqueue_one,
    new_worker,
    refused,
)


def limit(conn: Connection, max_pending: int | None) -> None:
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"max_pending": max_pending})


def test_a_tenant_without_a_limit_may_have_any_number_pending(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, n=20_000)
    enqueue(conn, n=1)
    assert count(conn, "jobs") == 20_001


def test_the_limit_is_exact_and_the_refusal_names_the_depth(conn: Connection) -> None:
    definition(conn)
    limit(conn, 10)
    enqueue(conn, n=4)
    with refused("JF008", depth=4, limit=10):
        enqueue(conn, n=7)
    enqueue(conn, n=6)
    with refused("JF008", depth=10, limit=10):
        enqueue_one(conn)
    assert count(conn, "jobs") == 10
    enqueue_one(conn, TENANT_B)


def test_the_limit_is_exact_at_ten_thousand(conn: Connection) -> None:
    definition(conn)
    limit(conn, 10_000)
    enqueue(conn, n=9_999)
    enqueue_one(conn)
    with refused("JF008", depth=10_000):
        enqueue_one(conn)
    claim(conn, new_worker())
    enqueue_one(conn)


def test_scheduled_jobs_are_pending_and_running_or_dead_ones_are_not(conn: Connection) -> None:
    definition(conn, max_attempts=1)
    limit(conn, 2)
    enqueue_one(conn, delay_s=60)
    enqueue_one(conn)
    with refused("JF008", depth=2):
        enqueue_one(conn)
    claim(conn, new_worker())
    enqueue_one(conn)


def test_a_duplicate_is_accepted_when_the_tenant_is_full(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn, key="k")
    enqueue(conn, n=2)
    limit(conn, 3)
    assert enqueue_one(conn, key="k") == job
    limit(conn, 1)
    assert enqueue_one(conn, key="k") == job, "nothing is added, so nothing is refused"


def test_a_batch_over_the_limit_takes_no_key(conn: Connection) -> None:
    definition(conn)
    limit(conn, 1)
    with refused("JF008"):
        enqueue(conn, n=2, key="k", key_mode="window", key_window_s=0)
    assert count(conn, "idempotency_keys") == 0


def test_removing_the_limit_accepts_jobs_again(conn: Connection) -> None:
    definition(conn)
    limit(conn, 1)
    enqueue_one(conn)
    with refused("JF008"):
        enqueue_one(conn)
    limit(conn, None)
    enqueue_one(conn)


def test_retrying_a_finished_job_obeys_the_limit(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn)
    call(conn, "cancel_job", job_id=job, tenant_id=TENANT_A)
    limit(conn, 1)
    enqueue_one(conn)
    with refused("JF008", depth=1):
        call(conn, "retry_job", job_id=job, tenant_id=TENANT_A)


@pytest.mark.parametrize("batches", [1, 3])
def test_above_ten_thousand_a_session_continues_its_cached_count(
    conn: Connection, batches: int
) -> None:
    definition(conn)
    limit(conn, 12_000)
    for _ in range(batches):
        enqueue(conn, n=12_000 // batches)
    with refused("JF008", depth=12_000, limit=12_000):
        enqueue_one(conn)


def test_above_ten_thousand_another_session_counts_again(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    limit(conn, 11_000)
    enqueue(conn, n=11_000)
    claim(conn, new_worker(), limit=1000)
    other = connect()
    enqueue(other, n=1000)
    with refused("JF008", depth=11_000):
        enqueue_one(other)


def test_the_cached_count_of_a_session_is_undone_by_a_rollback(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    limit(conn, 11_000)
    session = connect(autocommit=False)
    enqueue(session, n=1)
    session.commit()
    enqueue(session, n=10_999)
    session.rollback()
    assert len(enqueue(session, n=10_999)) == 10_999


def dead_jobs(conn: Connection, number: int) -> None:
    definition(conn)
    conn.execute(
        """
        insert into jobforge.jobs (tenant_id, id, created_at, run_at, finished_at, version, attempt,
                                   max_attempts, allowance, state, definition, queue, payload)
        select %s, jobforge_private.nth_id(jobforge_private.uuid7(), i), now(), now(), now(),
               1, 1, 1, 1, 'dead', 'test', 'default', '{}'
          from generate_series(1, %s) as i
        """,
        [TENANT_A, number],
    )


def test_with_many_dead_jobs_the_limit_is_exact_for_jobs_enqueued_since(
    conn: Connection,
) -> None:
    dead_jobs(conn, 12_000)
    limit(conn, 10)
    enqueue(conn, n=10)
    for _ in range(3):
        with refused("JF008", depth=10, limit=10):
            enqueue_one(conn)
        claim(conn, new_worker(), limit=4)
        with refused("JF008", depth=6, limit=10):
            enqueue(conn, n=5)
        enqueue(conn, n=4)


def test_a_session_walks_over_dead_jobs_rarely_and_separately_for_each_tenant(
    conn: Connection, connect: Connect
) -> None:
    dead_jobs(conn, 30_000)
    enqueue(conn, TENANT_B, n=11_000)
    for tenant in (TENANT_A, TENANT_B):
        call(conn, "put_tenant", tenant_id=tenant, settings={"max_pending": 20_000})
    limit(conn, 100)
    session = connect(autocommit=False)
    assert _walked(session, TENANT_A) >= 30_000
    assert _walked(session, TENANT_B) >= 11_000
    assert _walked(session, TENANT_A) < 11_000
    assert _walked(session, TENANT_B) < 1_000


def _walked(session: Connection, tenant: UUID) -> int:
    """Return the number of jobs that an enqueue reads."""
    before = _looked_at(session)
    enqueue_one(session, tenant)
    walked = _looked_at(session) - before
    session.commit()
    return walked


def _looked_at(session: Connection) -> int:
    [row] = session.execute(
        "select idx_tup_fetch as n from pg_stat_xact_user_tables where relname = 'jobs'"
    ).fetchall()
    number = row["n"]
    assert isinstance(number, int)
    return number


@pytest.mark.parametrize("text", ["{tenant} soon", "{tenant}", "{tenant} 1e9 x 5", "x"])
def test_an_unreadable_count_is_computed_again(conn: Connection, text: str) -> None:
    """A count is unreadable after a migration that changes what sessions cache."""
    definition(conn)
    limit(conn, 2)
    place = f"jobforge.pending_{TENANT_A.bytes[-1] & 63}"
    conn.execute("select set_config(%s, %s, false)", [place, text.format(tenant=TENANT_A)])
    enqueue(conn, n=2)
    with refused("JF008", depth=2, limit=2):
        enqueue(conn)
