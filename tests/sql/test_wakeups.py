"""NOTIFY: which sessions are notified of work, and when NOTIFY is skipped.

Polling alone is sufficient for correctness.
"""

from collections.abc import Callable
from uuid import UUID, uuid4

import psycopg
import pytest
from cluster import Clock, Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    call,
    claim,
    complete,
    definition,
    enqueue,
    enqueue_one,
    new_worker,
    release,
)
from sql.state_machine import stop_time

from jobforge.db.schema_files import function_files

END = "test:end"


@pytest.fixture
def notifications(conn: Connection, connect: Connect) -> Callable[[], list[tuple[str, str]]]:
    """Returns the notifications on the channels of two queues since the last call, as (channel,
    payload)."""
    listener = connect()
    for channel in ["jobforge:default", "jobforge:mail", END]:
        listener.execute(f'listen "{channel}"'.encode())

    def ask() -> list[tuple[str, str]]:
        # Notifications of one database arrive in the order of commits: this one comes last.
        conn.execute("select pg_notify(%s, '')", [END])
        received: list[tuple[str, str]] = []
        for notify in listener.notifies(timeout=30):
            if notify.channel == END:
                return received
            received.append((notify.channel, notify.payload))
        raise AssertionError("the last notification never arrived")

    return ask


def test_an_enqueue_wakes_its_queue_once_with_an_empty_payload(
    conn: Connection, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    jobs = [{"definition": "test"}] * 5 + [{"definition": "test", "queue": "mail"}] * 3
    call(conn, "enqueue_jobs", jobs=jobs, tenant_id=TENANT_A)
    assert sorted(notifications()) == [("jobforge:default", ""), ("jobforge:mail", "")]
    call(conn, "enqueue_payloads", definition="test", payloads=[{}] * 3, tenant_id=TENANT_B)
    assert notifications() == [("jobforge:default", "")]


def test_a_claim_that_promotes_jobs_of_another_queue_wakes_that_queue(
    conn: Connection, clock: Clock, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    enqueue(conn, n=2, queue="mail", delay_s=60)
    clock.travel(minutes=2)
    assert claim(conn, new_worker(), "default") == []
    assert notifications() == [("jobforge:mail", "")]


def test_a_claim_that_promotes_more_jobs_than_it_takes_wakes_its_queue(
    conn: Connection, clock: Clock, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    enqueue(conn, n=2, delay_s=60)
    clock.travel(minutes=2)
    assert len(claim(conn, new_worker(), "default", limit=1)) == 1
    assert notifications() == [("jobforge:default", "")]


def test_a_claim_that_takes_all_the_jobs_that_it_promotes_notifies_no_session(
    conn: Connection, clock: Clock, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    enqueue(conn, n=2, delay_s=60)
    clock.travel(minutes=2)
    assert len(claim(conn, new_worker(), "default", limit=2)) == 2
    assert notifications() == []


def test_a_released_job_wakes_its_queue(
    conn: Connection, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    enqueue(conn, n=2, queue="mail")
    worker = new_worker()
    held = claim(conn, worker, "mail", limit=2)
    notifications()
    release(conn, worker, held)
    assert notifications() == [("jobforge:mail", "")]


def test_without_notify_everything_works_and_no_session_is_notified(
    conn: Connection, connect: Connect, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    session = connect(autocommit=False)
    session.execute("set local jobforge.notify = off")
    job = enqueue_one(session)
    session.commit()
    assert notifications() == []
    assert [row["job_id"] for row in claim(conn, new_worker())] == [job]
    enqueue_one(session)  # the setting applied to that transaction only
    session.commit()
    assert notifications() == [("jobforge:default", "")]


def test_a_notify_setting_that_is_not_a_boolean_is_refused(conn: Connection) -> None:
    definition(conn)
    with conn.transaction(force_rollback=True):
        conn.execute("set local jobforge.notify = 'perhaps'")
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            enqueue_one(conn)


def test_only_one_function_sends_notifications() -> None:
    senders = {path.stem for path in function_files() if "pg_notify" in path.read_text()}
    assert senders == {"notify_channel"}


# Each call is in a transaction that is prepared first, and committed later by another session.
PREPARED: dict[str, Callable[[Connection, UUID], object]] = {
    "enqueue_job": lambda conn, _: call(conn, "enqueue_job", definition="test", tenant_id=TENANT_B),
    "enqueue_jobs": lambda conn, _: enqueue(conn, TENANT_B, 3),
    "enqueue_payloads": lambda conn, _: call(
        conn, "enqueue_payloads", definition="test", payloads=[{}] * 2, tenant_id=TENANT_B
    ),
    "enqueue_jobs with a parent": lambda conn, job: enqueue(conn, after=[str(job)]),
    "emit_event": lambda conn, _: call(conn, "emit_event", name="paid", tenant_id=TENANT_B),
    "edit_job": lambda conn, job: call(
        conn, "reschedule_job", job_id=job, run_at=None, tenant_id=TENANT_A
    ),
    "cancel_job": lambda conn, job: call(conn, "cancel_job", job_id=job, tenant_id=TENANT_A),
}


@pytest.mark.parametrize("name", PREPARED)
def test_a_transaction_without_notify_can_be_prepared(
    conn: Connection, connect: Connect, name: str
) -> None:
    definition(conn)
    job = enqueue_one(conn, delay_s=60)
    session, gid = connect(), f"test-{uuid4()}"
    session.execute("begin")
    session.execute("set local jobforge.notify = off")
    PREPARED[name](session, job)
    session.execute(f"prepare transaction '{gid}'".encode())
    session.close()
    conn.execute(f"commit prepared '{gid}'".encode())
    [row] = conn.execute(
        "select (select count(*) from jobforge.all_jobs where id <> %(job)s)"
        " + (select count(*) from jobforge.events)"
        " + (select count(*) from jobforge.all_jobs where id = %(job)s and state <> 'scheduled')"
        " as changes",
        {"job": job},
    ).fetchall()
    assert row["changes"] > 0


def test_a_transaction_that_notifies_cannot_be_prepared(conn: Connection, connect: Connect) -> None:
    definition(conn)
    session = connect()
    session.execute("begin")
    enqueue_one(session)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
        session.execute("prepare transaction 'test'")


def test_a_job_that_is_not_due_wakes_no_queue(
    conn: Connection, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    enqueue_one(conn, delay_s=60)
    enqueue_one(conn, delay_s=0.5)
    assert notifications() == []


def test_a_rolled_back_enqueue_wakes_no_queue(
    conn: Connection, connect: Connect, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    session = connect(autocommit=False)
    enqueue_one(session)
    session.rollback()
    assert notifications() == []


def test_a_queue_that_was_woken_and_still_has_jobs_is_not_woken_again(
    conn: Connection, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    stop_time(conn)
    enqueue_one(conn)
    assert len(notifications()) == 1
    enqueue_one(conn)
    call(conn, "enqueue_job", definition="test", tenant_id=TENANT_A)
    call(conn, "enqueue_payloads", definition="test", payloads=[{}] * 3, tenant_id=TENANT_A)
    assert notifications() == []


@pytest.mark.parametrize(
    ("tenant", "priority"), [(TENANT_B, 0), (TENANT_A, 5)], ids=["another tenant", "priority"]
)
def test_another_tenant_or_priority_wakes_the_queue_again(
    conn: Connection,
    notifications: Callable[[], list[tuple[str, str]]],
    tenant: UUID,
    priority: int,
) -> None:
    definition(conn)
    enqueue_one(conn)
    notifications()
    enqueue_one(conn, tenant, priority=priority)
    assert len(notifications()) == 1


def test_a_queue_is_woken_again_when_its_last_job_was_taken(
    conn: Connection, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    enqueue_one(conn)
    claim(conn, new_worker())
    notifications()
    enqueue_one(conn)
    assert len(notifications()) == 1


def test_an_old_waiting_job_does_not_prevent_the_wakeup_of_its_queue(
    conn: Connection, clock: Clock, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    enqueue_one(conn)
    notifications()
    clock.travel(seconds=6)
    enqueue_one(conn)
    assert len(notifications()) == 1


def test_a_job_rescheduled_to_now_wakes_its_queue(
    conn: Connection, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    job = enqueue_one(conn, delay_s=60)
    call(conn, "reschedule_job", job_id=job, run_at=None, tenant_id=TENANT_A)
    assert notifications() == [("jobforge:default", "")]


def test_a_replacement_that_makes_a_job_ready_wakes_its_queue(
    conn: Connection, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    enqueue_one(conn, key="k", delay_s=60)
    enqueue_one(conn, key="k", on_conflict="replace")
    assert notifications() == [("jobforge:default", "")]


def test_a_revived_job_wakes_its_queue(
    conn: Connection, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn, max_attempts=1)
    job = enqueue_one(conn)
    worker = new_worker()
    complete(conn, worker, claim(conn, worker), "failed")
    notifications()
    call(conn, "retry_job", job_id=job, tenant_id=TENANT_A)
    assert notifications() == [("jobforge:default", "")]


def test_the_hooks_of_a_job_that_ended_wake_their_queue(
    conn: Connection, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn, hooks=True)
    definition(conn, "test:hooks", queue="mail")
    enqueue_one(conn)
    worker = new_worker()
    held = claim(conn, worker)
    notifications()
    complete(conn, worker, held)
    assert notifications() == [("jobforge:mail", "")]


def test_canceling_a_running_job_notifies_its_worker(conn: Connection, connect: Connect) -> None:
    definition(conn)
    job, worker, listener = enqueue_one(conn), new_worker(), connect()
    claim(conn, worker)
    listener.execute(f'listen "jobforge:worker:{worker}"'.encode())
    call(conn, "cancel_job", job_id=job, tenant_id=TENANT_A)
    [notify] = listener.notifies(timeout=30, stop_after=1)
    assert (notify.channel, notify.payload) == (f"jobforge:worker:{worker}", "")


def test_a_command_notifies_its_worker(conn: Connection, connect: Connect) -> None:
    worker, listener = new_worker(), connect()
    listener.execute(f'listen "jobforge:worker:{worker}"'.encode())
    call(conn, "register_worker", worker_id=worker, queues=["default"], slots=1)
    call(conn, "drain_worker", worker_id=worker)
    assert [n.payload for n in listener.notifies(timeout=30, stop_after=1)] == [""]


def test_resuming_wakes_the_queues_that_workers_serve(
    conn: Connection, notifications: Callable[[], list[tuple[str, str]]]
) -> None:
    definition(conn)
    call(conn, "register_worker", worker_id=new_worker(), queues=["default", "mail"], slots=1)
    for kind, name in [("queue", "mail"), ("definition", "test"), ("tenant", TENANT_A)]:
        argument = {"queue": "queue", "definition": "key", "tenant": "tenant_id"}[kind]
        call(conn, f"pause_{kind}", **{argument: name})
        notifications()
        call(conn, f"resume_{kind}", **{argument: name})
        woken = {"jobforge:mail"} if kind == "queue" else {"jobforge:mail", "jobforge:default"}
        assert {channel for channel, _ in notifications()} == woken
