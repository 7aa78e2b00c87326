"""Limits and pauses that change while jobs wait, run, and are being claimed."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from cluster import Connect, Connection, Database, fresh_database
from sql.background_call import in_background, is_blocked_or_done
from sql.claimer_threads import Fleet
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    call,
    complete,
    count,
    definition,
    enqueue,
    new_worker,
)
from sql.limit_kinds import KINDS, reset_all
from sql.uncached_claim import claim

from jobforge.embedded import PostgresServer


@pytest.fixture(scope="module")
def database(server: PostgresServer) -> Iterator[Database]:
    with fresh_database(server) as fresh:
        yield fresh


@pytest.fixture
def worker(conn: Connection) -> UUID:
    reset_all(conn)
    return new_worker()


@pytest.mark.parametrize("kind", KINDS)
def test_a_lowered_cap_starts_nothing_until_enough_jobs_have_ended(
    conn: Connection, worker: UUID, kind: str
) -> None:
    KINDS[kind].cap(conn, 3)
    enqueue(conn, n=10, limit_key="red")
    running = claim(conn, worker, limit=5)
    KINDS[kind].cap(conn, 1)
    for job in running:
        assert claim(conn, worker, limit=5) == []
        complete(conn, worker, [job])
    assert len(claim(conn, worker, limit=5)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_raised_cap_starts_more_jobs_at_once(conn: Connection, worker: UUID, kind: str) -> None:
    KINDS[kind].cap(conn, 1)
    enqueue(conn, n=10, limit_key="red")
    claim(conn, worker, limit=5)
    KINDS[kind].cap(conn, 3)
    assert len(claim(conn, worker, limit=5)) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_removed_cap_starts_all_jobs_at_once(conn: Connection, worker: UUID, kind: str) -> None:
    KINDS[kind].cap(conn, 1)
    enqueue(conn, n=10, limit_key="red")
    claim(conn, worker, limit=5)
    KINDS[kind].cap(conn, None)
    assert len(claim(conn, worker, limit=20)) == 9


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_cap_counts_running_jobs(conn: Connection, worker: UUID, kind: str) -> None:
    enqueue(conn, n=10, limit_key="red")
    claim(conn, worker, limit=2)
    KINDS[kind].cap(conn, 3)
    assert len(claim(conn, worker, limit=5)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_cap_counts_jobs_that_are_being_claimed_at_that_moment(
    conn: Connection, connect: Connect, worker: UUID, kind: str
) -> None:
    enqueue(conn, n=10, limit_key="red")
    claiming, setting = connect(autocommit=False), connect()
    claim(claiming, worker, limit=2)
    with in_background(setting, lambda c: KINDS[kind].cap(c, 3)) as done:
        # It may wait for the uncommitted claim, or count its jobs in another way.
        is_blocked_or_done(conn, setting, done)
        claiming.commit()
        done.result()
    for _ in range(3):
        claim(conn, worker, limit=5)
    running = "select from jobforge.jobs where state = 'running'"
    assert conn.execute(running).rowcount == 3


PAUSES: dict[str, tuple[str, dict[str, Any]]] = {
    "definition": ("definition", {"key": "test"}),
    "tenant": ("tenant", {"tenant_id": TENANT_A}),
    "queue": ("queue", {"queue": "default"}),
}


@pytest.mark.parametrize("what", PAUSES)
def test_a_pause_prevents_starts_but_does_not_block_others(
    conn: Connection, worker: UUID, what: str
) -> None:
    noun, subject = PAUSES[what]
    enqueue(conn, n=30, priority=10)
    other = enqueue(conn, TENANT_B, n=3, definition="plain", queue="other")
    [running] = claim(conn, worker)
    call(conn, f"pause_{noun}", **subject)
    assert claim(conn, worker, limit=5) == []
    assert {job["job_id"] for job in claim(conn, worker, "other", limit=5)} == set(other)
    assert [row["status"] for row in complete(conn, worker, [running])] == ["ok"]
    enqueue(conn, n=5)
    assert claim(conn, worker, limit=5) == []


def test_a_paused_definition_does_not_block_the_same_tenant_and_queue(
    conn: Connection, worker: UUID
) -> None:
    enqueue(conn, n=30, priority=10)
    plain = enqueue(conn, n=5, definition="plain")
    call(conn, "pause_definition", key="test")
    assert {job["job_id"] for job in claim(conn, worker, limit=10)} == set(plain)


@pytest.mark.parametrize("what", PAUSES)
def test_a_resumed_backlog_is_drained_to_the_last_job(
    conn: Connection, connect: Connect, worker: UUID, what: str
) -> None:
    noun, subject = PAUSES[what]
    enqueue(conn, n=300)
    call(conn, f"pause_{noun}", **subject)
    claim(conn, worker, limit=5)  # marks the jobs that it reads
    enqueue(conn, n=300)
    call(conn, f"resume_{noun}", **subject)
    assert len(Fleet(connect).drain(600)) == 600
    assert count(conn, "jobs") == 0


def _regate(conn: Connection) -> None:
    position: Row = {"after_tenant": None, "after_id": None}
    while True:
        [position] = conn.execute(
            "select * from jobforge.regate_jobs(100, %s, %s)",
            [position["after_tenant"], position["after_id"]],
        ).fetchall()
        if position["after_id"] is None:
            return


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_marks_waiting_jobs_for_the_current_limits(conn: Connection, kind: str) -> None:
    enqueue(conn, n=250, limit_key="red")
    KINDS[kind].cap(conn, 2)
    _regate(conn)
    unmarked = "select from jobforge.jobs where gate is null"
    assert conn.execute(unmarked).rowcount == 0
    KINDS[kind].cap(conn, None)
    _regate(conn)
    assert conn.execute(unmarked).rowcount == 250


def test_newly_limited_jobs_are_found_behind_jobs_without_a_worker(
    conn: Connection, worker: UUID
) -> None:
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"max_running": 10})
    enqueue(conn, n=5, definition="plain")
    enqueue(conn, n=5)
    definition(conn, max_running=2)
    assert len(claim(conn, worker, limit=5, definitions=["test@1"])) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_running_job_whose_row_is_locked_counts_when_a_cap_is_set(
    conn: Connection, connect: Connect, worker: UUID, kind: str
) -> None:
    enqueue(conn, n=2, limit_key="k")
    [running] = claim(conn, worker)
    holder = connect(autocommit=False)
    call(holder, "cancel_job", job_id=running["job_id"], tenant_id=TENANT_A)
    KINDS[kind].cap(conn, 1)
    assert claim(connect(), worker, limit=2) == []
    holder.commit()
    complete(conn, worker, [running])
    assert len(claim(connect(), worker, limit=2)) == 1
