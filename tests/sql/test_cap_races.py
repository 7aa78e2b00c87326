"""Caps with eight concurrent claimers: they are never exceeded, and every job is done."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from cluster import Connect, Connection
from sql.cap_usage import CapUsage
from sql.claimer_threads import Fleet
from sql.engine import (
    TENANT_A,
    TENANT_B,
    call,
    claim,
    complete,
    count,
    definition,
    enqueue,
    new_worker,
)
from sql.limit_kinds import KINDS, reset_all
from sql.mutation import mutate


@pytest.fixture
def cap_usage(conn: Connection) -> CapUsage:
    reset_all(conn)
    return CapUsage(conn)


def _groups_of(conn: Connection, subject: tuple[str, ...]) -> int:
    """Return the highest number of running jobs that share a cap, counted from the current rows."""
    [row] = conn.execute(
        f"""
        select coalesce(max(n), 0) as most
          from (select count(*) as n from jobforge.jobs
                 where state = 'running' and definition = 'test'
                 group by {", ".join(subject)}) as held
        """.encode()
    ).fetchall()
    return int(row["most"])


@contextmanager
def _watched(conn: Connection, subject: tuple[str, ...]) -> Iterator[list[int]]:
    """Count repeatedly from another session during the block; yield the highest count so far."""
    most = [0]
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            most[0] = max(most[0], _groups_of(conn, subject))

    with ThreadPoolExecutor(1) as thread:
        watching = thread.submit(watch)
        try:
            yield most
        finally:
            over.set()
        watching.result()


@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cap_is_never_exceeded_and_all_its_jobs_are_done(
    conn: Connection, connect: Connect, cap_usage: CapUsage, kind: str, cap: int
) -> None:
    KINDS[kind].cap(conn, cap)
    for tenant in (TENANT_A, TENANT_B):
        for key in ("red", "green", "blue"):
            enqueue(conn, tenant, n=30 * cap, limit_key=key)
    with _watched(connect(), KINDS[kind].subject) as most:
        Fleet(connect).drain(180 * cap)
    assert most[0] <= cap
    assert cap_usage.most(*KINDS[kind].subject) == cap
    assert count(conn, "finished_jobs") == 180 * cap


def test_all_jobs_are_done_while_limits_and_pauses_change(
    conn: Connection, connect: Connect, cap_usage: CapUsage
) -> None:
    definition(conn, max_running=3)
    for tenant in (TENANT_A, TENANT_B):
        enqueue(conn, tenant, n=150, limit_key="red")
        enqueue(conn, tenant, n=100, definition="plain")
    changing = connect()
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            definition(changing, max_running=1)
            call(changing, "pause_tenant", tenant_id=TENANT_A)
            definition(changing, max_running=3, max_running_per_key=2)
            call(changing, "resume_tenant", tenant_id=TENANT_A)
            call(changing, "pause_definition", key="test")
            call(changing, "put_queue", queue="default", settings={"max_running": 4})
            call(changing, "resume_definition", key="test")
            call(changing, "put_queue", queue="default", settings={"max_running": None})

    with ThreadPoolExecutor(1) as thread:
        changes = thread.submit(change)
        try:
            Fleet(connect).drain(500)
        finally:
            over.set()
        changes.result()
    assert cap_usage.most_of("definition", "test") <= 3
    assert count(conn, "jobs") == 0


# Tests of CapUsage itself: it counts correctly.


def test_the_record_counts_consecutive_runs_once(conn: Connection, cap_usage: CapUsage) -> None:
    enqueue(conn, n=3)
    for worker in (new_worker(), new_worker(), new_worker()):
        complete(conn, worker, claim(conn, worker))
    assert cap_usage.most("definition") == 1


def test_the_record_counts_runs_that_start_in_two_concurrent_transactions(
    connect: Connect, conn: Connection, cap_usage: CapUsage
) -> None:
    definition(conn, max_running=1)
    lock = "not jobforge_private.try_lock("
    mutate(conn, "lock_limits", lock, "not pg_is_in_recovery() and null = (")
    enqueue(conn, n=3)
    one, other = connect(autocommit=False), connect(autocommit=False)
    claim(one, new_worker())
    claim(other, new_worker())
    one.commit()
    other.commit()
    assert cap_usage.most("definition") == 2


def test_the_record_counts_a_run_until_its_end_is_committed(
    connect: Connect, conn: Connection, cap_usage: CapUsage
) -> None:
    enqueue(conn, n=3)
    worker, ending = new_worker(), connect(autocommit=False)
    complete(ending, worker, claim(conn, worker))
    claim(conn, worker)
    ending.commit()
    assert cap_usage.most("definition") == 2
