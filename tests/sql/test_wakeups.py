"""NOTIFY: who is told that there is work, and when it is left out. Polling is right without any."""

from collections.abc import Callable
from uuid import UUID

import pytest
from cluster import Clock, Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    call,
    claim,
    complete,
    definition,
    enqueue_one,
    new_worker,
)
from sql.machine import stop_time

END = "test:end"


@pytest.fixture
def heard(conn: Connection, connect: Connect) -> Callable[[], list[tuple[str, str]]]:
    """What came in on the channels of two queues since it was last asked, as (channel, payload)."""
    listener = connect()
    for channel in ["jobforge:default", "jobforge:mail", END]:
        listener.execute(f'listen "{channel}"'.encode())

    def ask() -> list[tuple[str, str]]:
        # Notifications of one database arrive in the order of commits: this one comes last.
        conn.execute("select pg_notify(%s, '')", [END])
        told: list[tuple[str, str]] = []
        for notify in listener.notifies(timeout=30):
            if notify.channel == END:
                return told
            told.append((notify.channel, notify.payload))
        raise AssertionError("the end was never heard")

    return ask


def test_an_enqueue_wakes_its_queue_once_and_tells_nothing(
    conn: Connection, heard: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    jobs = [{"definition": "test"}] * 5 + [{"definition": "test", "queue": "mail"}] * 3
    call(conn, "enqueue_jobs", jobs=jobs, tenant_id=TENANT_A)
    assert sorted(heard()) == [("jobforge:default", ""), ("jobforge:mail", "")]
    call(conn, "enqueue_alike", definition="test", payloads=[{}] * 3, tenant_id=TENANT_B)
    assert heard() == [("jobforge:default", "")]


def test_a_job_that_is_not_due_wakes_nobody(
    conn: Connection, heard: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    enqueue_one(conn, delay_s=60)
    enqueue_one(conn, delay_s=0.5)
    assert heard() == []


def test_a_rolled_back_enqueue_wakes_nobody(
    conn: Connection, connect: Connect, heard: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    session = connect(autocommit=False)
    enqueue_one(session)
    session.rollback()
    assert heard() == []


def test_a_queue_that_was_woken_and_has_not_caught_up_is_not_woken_again(
    conn: Connection, heard: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    stop_time(conn)
    enqueue_one(conn)
    assert len(heard()) == 1
    enqueue_one(conn)
    call(conn, "enqueue_job", definition="test", tenant_id=TENANT_A)
    call(conn, "enqueue_alike", definition="test", payloads=[{}] * 3, tenant_id=TENANT_A)
    assert heard() == []


@pytest.mark.parametrize(
    ("tenant", "priority"), [(TENANT_B, 0), (TENANT_A, 5)], ids=["another tenant", "priority"]
)
def test_another_tenant_or_priority_wakes_the_queue_again(
    conn: Connection,
    heard: Callable[[], list[tuple[str, str]]],
    tenant: UUID,
    priority: int,
) -> None:
    definition(conn)
    enqueue_one(conn)
    heard()
    enqueue_one(conn, tenant, priority=priority)
    assert len(heard()) == 1


def test_a_queue_is_woken_again_when_its_last_job_was_taken(
    conn: Connection, heard: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    enqueue_one(conn)
    claim(conn, new_worker())
    heard()
    enqueue_one(conn)
    assert len(heard()) == 1


def test_an_old_waiting_job_does_not_keep_a_queue_asleep(
    conn: Connection, clock: Clock, heard: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    enqueue_one(conn)
    heard()
    clock.travel(seconds=6)
    enqueue_one(conn)
    assert len(heard()) == 1


def test_a_job_made_ready_by_hand_wakes_its_queue(
    conn: Connection, heard: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    job = enqueue_one(conn, delay_s=60)
    call(conn, "reschedule_job", job_id=job, run_at=None, tenant_id=TENANT_A)
    assert heard() == [("jobforge:default", "")]


def test_a_replacement_that_makes_a_job_ready_wakes_its_queue(
    conn: Connection, heard: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    enqueue_one(conn, key="k", delay_s=60)
    enqueue_one(conn, key="k", on_conflict="replace")
    assert heard() == [("jobforge:default", "")]


def test_a_revived_job_wakes_its_queue(
    conn: Connection, heard: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn, max_attempts=1)
    job = enqueue_one(conn)
    worker = new_worker()
    complete(conn, worker, claim(conn, worker), "failed")
    heard()
    call(conn, "retry_job", job_id=job, tenant_id=TENANT_A)
    assert heard() == [("jobforge:default", "")]


def test_the_hooks_of_a_job_that_ended_wake_their_queue(
    conn: Connection, heard: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn, hooks=True)
    definition(conn, "test:hooks", queue="mail")
    enqueue_one(conn)
    worker = new_worker()
    held = claim(conn, worker)
    heard()
    complete(conn, worker, held)
    assert heard() == [("jobforge:mail", "")]


def test_canceling_a_running_job_tells_its_worker(conn: Connection, connect: Connect) -> None:
    definition(conn)
    job, worker, listener = enqueue_one(conn), new_worker(), connect()
    claim(conn, worker)
    listener.execute(f'listen "jobforge:worker:{worker}"'.encode())
    call(conn, "cancel_job", job_id=job, tenant_id=TENANT_A)
    [notify] = listener.notifies(timeout=30, stop_after=1)
    assert (notify.channel, notify.payload) == (f"jobforge:worker:{worker}", "")


def test_a_command_tells_its_worker(conn: Connection, connect: Connect) -> None:
    worker, listener = new_worker(), connect()
    listener.execute(f'listen "jobforge:worker:{worker}"'.encode())
    call(conn, "register_worker", worker_id=worker, queues=["default"], slots=1)
    call(conn, "drain_worker", worker_id=worker)
    assert [n.payload for n in listener.notifies(timeout=30, stop_after=1)] == [""]


def test_resuming_wakes_the_queues_that_are_served(
    conn: Connection, heard: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    call(conn, "register_worker", worker_id=new_worker(), queues=["default", "mail"], slots=1)
    for kind, name in [("queue", "mail"), ("definition", "test"), ("tenant", TENANT_A)]:
        argument = {"queue": "queue", "definition": "key", "tenant": "tenant_id"}[kind]
        call(conn, f"pause_{kind}", **{argument: name})
        heard()
        call(conn, f"resume_{kind}", **{argument: name})
        woken = {"jobforge:mail"} if kind == "queue" else {"jobforge:mail", "jobforge:default"}
        assert {channel for channel, _ in heard()} == woken
