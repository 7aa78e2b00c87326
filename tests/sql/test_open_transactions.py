"""An open transaction of an application delays only the jobs that it locks.

It locks a job that waits for another, as a transaction does that enqueues a child of the job.
"""

from uuid import UUID

import pytest
from cluster import Clock, Connect, Connection
from sql.background_call import in_background
from sql.engine import (
    TENANT_A,
    TENANT_B,
    claim,
    definition,
    enqueue_one,
    new_worker,
    reap,
    state_of,
)


def held_child(conn: Connection, holder: Connection, parent: UUID) -> UUID:
    child = enqueue_one(conn, after=[str(parent)], on_parent_failure="run")
    enqueue_one(holder, after=[str(child)])
    return child


@pytest.mark.parametrize("is_limited", [False, True])
def test_a_claim_skips_an_expired_job_whose_end_is_blocked(
    conn: Connection, connect: Connect, clock: Clock, *, is_limited: bool
) -> None:
    definition(conn, max_running=10 if is_limited else None)
    parent = enqueue_one(conn, expires_in_s=1)
    holder = connect(autocommit=False)
    child = held_child(conn, holder, parent)
    expired, ready = enqueue_one(conn, expires_in_s=1), enqueue_one(conn)
    clock.travel(seconds=2)
    with in_background(connect(), lambda other: claim(other, new_worker(), limit=9)) as future:
        assert [row["job_id"] for row in future.result(5)] == [ready]
    assert state_of(conn, TENANT_A, expired) == "canceled"
    assert state_of(conn, TENANT_A, parent) == "queued"
    holder.rollback()
    assert [row["job_id"] for row in claim(conn, new_worker(), limit=9)] == [child]
    assert state_of(conn, TENANT_A, parent) == "canceled"


def test_the_reaper_leaves_a_job_whose_end_is_blocked_to_the_next_call(
    conn: Connection, connect: Connect, clock: Clock
) -> None:
    definition(conn, max_attempts=1)
    parent = enqueue_one(conn)
    holder = connect(autocommit=False)
    child = held_child(conn, holder, parent)
    others = {enqueue_one(conn), enqueue_one(conn, TENANT_B)}
    assert len(claim(conn, new_worker(), limit=3)) == 3
    stale = enqueue_one(conn, expires_in_s=1)
    clock.travel(minutes=1)
    with in_background(connect(), reap) as future:
        assert {row["job_id"] for row in future.result(5)} == {*others, stale}
    holder.rollback()
    assert [row["job_id"] for row in reap(conn)] == [parent]
    assert state_of(conn, TENANT_A, child) == "queued"


def test_a_job_that_cannot_be_settled_does_not_prevent_the_reaping_of_others(
    conn: Connection, clock: Clock
) -> None:
    definition(conn)
    broken, sound = enqueue_one(conn), enqueue_one(conn, TENANT_B)
    assert len(claim(conn, new_worker(), limit=2)) == 2
    clock.travel(minutes=1)
    conn.execute(
        f"alter table jobforge.attempts add constraint c check (job_id <> '{broken}')".encode()
    )
    assert [row["job_id"] for row in reap(conn)] == [sound]
    conn.execute("alter table jobforge.attempts drop constraint c")
    assert [row["job_id"] for row in reap(conn)] == [broken]
