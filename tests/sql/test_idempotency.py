"""Idempotency keys: how long a key is held, and what a second enqueue with it does."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection, wait_until
from psycopg.types.json import Jsonb
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    call,
    call_for_value,
    claim,
    complete,
    count,
    definition,
    enqueue_one,
    job_of,
    new_worker,
    refused,
    state_of,
)
from sql.lifecycle_actions import prepare

# The result of a second enqueue, by the state of the job that holds the key. Only the mode of the
# first enqueue decides how long the key is held.
HELD_WHILE = {
    "retained": {"scheduled", "queued", "blocked", "running", "canceling", "retrying"}
    | {"succeeded", "canceled", "dead"},
    "active": {"scheduled", "queued", "blocked", "running", "canceling", "retrying"},
    "window": {"scheduled", "queued", "blocked", "running", "canceling", "retrying"}
    | {"succeeded", "canceled", "dead"},
}
NOT_STARTED = {"scheduled", "queued", "blocked"}
STARTS = sorted(HELD_WHILE["retained"])


@pytest.fixture(scope="module")
def known(shared_conn: Connection) -> Connection:
    definition(shared_conn, max_attempts=2, backoff_base_s=60)
    return shared_conn


def enqueue_again(conn: Connection, tenant: UUID, **options: Any) -> Row:
    job = {"definition": "test", "key": "k", "payload": {"new": True}, **options}
    [row] = call(conn, "enqueue_jobs", jobs=[job], tenant_id=tenant)
    return row


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("on_conflict", ["existing", "replace", "raise"])
@pytest.mark.parametrize("mode", sorted(HELD_WHILE))
def test_a_key_is_held_as_long_as_its_mode_says(
    known: Connection, shared_clock: Clock, mode: str, on_conflict: str, start: str
) -> None:
    first = prepare(known, shared_clock, start, key="k", key_mode=mode, key_window_s=900)
    before = first.row()

    if start in HELD_WHILE[mode] and on_conflict == "raise":
        with refused("JF011", job_id=str(first.job), key="k", index=0, same_payload=False):
            enqueue_again(known, first.tenant, on_conflict=on_conflict)
        assert first.row() == before
        return
    row = enqueue_again(known, first.tenant, on_conflict=on_conflict)

    if start not in HELD_WHILE[mode]:
        assert row["status"] == "created"
        assert row["job_id"] != first.job
        assert state_of(known, first.tenant, row["job_id"]) == "queued"
    elif on_conflict == "replace" and start in NOT_STARTED:
        assert (row["status"], row["job_id"]) == ("replaced", first.job)
        assert first.row()["payload"] == {"new": True}
    else:
        assert (row["status"], row["job_id"]) == ("existing", first.job)
        assert first.row() == before


def test_a_window_frees_its_key_when_it_ends(conn: Connection, clock: Clock) -> None:
    definition(conn)
    first = enqueue_one(conn, key="k", key_mode="window", key_window_s=60)
    clock.travel(seconds=50)
    assert enqueue_again(conn, TENANT_A)["job_id"] == first
    clock.travel(seconds=11)
    second = enqueue_again(conn, TENANT_A, key_mode="window", key_window_s=60)
    assert second["status"] == "created"
    clock.travel(seconds=50)
    assert enqueue_again(conn, TENANT_A)["job_id"] == second["job_id"], "the new window applies"


def test_a_retained_key_is_held_for_thirty_days(conn: Connection, clock: Clock) -> None:
    definition(conn)
    first = enqueue_one(conn, key="k")
    call(conn, "cancel_job", job_id=first, tenant_id=TENANT_A)
    clock.travel(days=29.9)
    assert enqueue_again(conn, TENANT_A) == {"index": 0, "job_id": first, "status": "existing"}
    clock.travel(days=0.2)
    assert enqueue_again(conn, TENANT_A)["status"] == "created"


def test_a_key_is_unique_in_a_tenant_and_a_definition_across_versions(conn: Connection) -> None:
    definition(conn, "test", 1)
    definition(conn, "test", 2)
    definition(conn, "other")
    first = enqueue_one(conn, key="k", definition="test@1")
    assert enqueue_again(conn, TENANT_A, definition="test@2")["job_id"] == first
    assert enqueue_again(conn, TENANT_A, definition="test", version=2)["job_id"] == first
    assert enqueue_again(conn, TENANT_A, definition="other")["status"] == "created"
    assert enqueue_again(conn, TENANT_B)["status"] == "created"


def test_jobs_without_a_key_are_never_duplicates(conn: Connection) -> None:
    definition(conn)
    assert enqueue_one(conn) != enqueue_one(conn)
    assert count(conn, "idempotency_keys") == 0


def test_a_replaced_job_has_the_new_content_and_keeps_its_position(conn: Connection) -> None:
    definition(conn)
    first = enqueue_one(conn, key="k", delay_s=60, priority=1, tags=["old"], expires_in_s=90)
    row = enqueue_again(conn, TENANT_A, on_conflict="replace", priority=5, tags=["new"])
    job = job_of(conn, TENANT_A, first)
    assert row == {"index": 0, "job_id": first, "status": "replaced"}
    assert (job["state"], job["priority"], job["tags"]) == ("queued", 5, ["new"])
    assert (job["payload"], job["expires_at"], job["attempt"]) == ({"new": True}, None, 0)
    assert count(conn, "jobs") == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("queue", "other"),
        ("max_attempts", 9),
        ("timeout_s", 44),
        ("limit_key", "l"),
        ("correlation_id", "c"),
        ("traceparent", "00-01"),
        ("created_by", "ada"),
        ("artifact_ref", "ref"),
    ],
)
def test_a_replacement_changes_every_field(conn: Connection, field: str, value: Any) -> None:
    definition(conn)
    first = enqueue_one(conn, key="k")
    options: dict[str, Any] = {field: value}
    assert enqueue_again(conn, TENANT_A, on_conflict="replace", **options)["status"] == "replaced"
    assert job_of(conn, TENANT_A, first)[field] == value


def test_a_replaced_job_holds_its_key_for_the_new_payload_from_then_on(
    conn: Connection, clock: Clock
) -> None:
    definition(conn)
    first = enqueue_again(conn, TENANT_A, delay_s=3e6, payload={"n": 1})
    clock.travel(days=20)
    replaced = enqueue_again(conn, TENANT_A, delay_s=3e6, payload={"n": 2}, on_conflict="replace")
    assert (replaced["job_id"], replaced["status"]) == (first["job_id"], "replaced")
    for payload, is_same in (({"n": 2}, True), ({"n": 1}, False)):
        with refused("JF011", job_id=str(first["job_id"]), same_payload=is_same):
            enqueue_again(conn, TENANT_A, payload=payload, on_conflict="raise")
    clock.travel(days=20)
    assert enqueue_again(conn, TENANT_A)["status"] == "existing"
    clock.travel(days=11)
    assert enqueue_again(conn, TENANT_A)["status"] == "created"


def test_a_replacement_may_defer_the_job(conn: Connection) -> None:
    definition(conn)
    first = enqueue_one(conn, key="k")
    enqueue_again(conn, TENANT_A, on_conflict="replace", delay_s=60)
    job = job_of(conn, TENANT_A, first)
    assert (job["state"], job["queued_at"]) == ("scheduled", None)
    assert job["run_at"] - job["created_at"] >= timedelta(seconds=60)


# Duplicates within one batch.


def batch(conn: Connection, *jobs: dict[str, Any]) -> list[Row]:
    given = [{"definition": "test", "key": "k"} | job for job in jobs]
    rows = call(conn, "enqueue_jobs", jobs=Jsonb(given), tenant_id=TENANT_A)
    return sorted(rows, key=lambda row: row["index"])


@pytest.mark.parametrize("mode", ["retained", "active", "window"])
def test_a_key_twice_in_a_batch_creates_one_job(conn: Connection, mode: str) -> None:
    definition(conn)
    element = {"key_mode": mode, "key_window_s": 60}
    first, second = batch(conn, element, element)
    assert (first["status"], second["status"]) == ("created", "existing")
    assert first["job_id"] == second["job_id"]
    assert count(conn, "jobs") == 1


def test_a_key_twice_in_a_batch_is_refused_on_request(conn: Connection) -> None:
    definition(conn)
    with refused("JF011", index=1):
        batch(conn, {}, {"on_conflict": "raise"})
    assert (count(conn, "jobs"), count(conn, "idempotency_keys")) == (0, 0)


def test_a_job_is_not_replaced_within_the_batch_that_creates_it(conn: Connection) -> None:
    definition(conn)
    with refused("JF002", field="key", index=1):
        batch(conn, {"payload": {"n": 1}}, {"payload": {"n": 2}, "on_conflict": "replace"})
    assert (count(conn, "jobs"), count(conn, "idempotency_keys")) == (0, 0)


# Two concurrent sessions. The second waits for the first to end its transaction.


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


def blockers(watcher: Connection, waiting: Connection) -> list[int]:
    [row] = watcher.execute(
        "select pg_blocking_pids(%s) as pids", [waiting.info.backend_pid]
    ).fetchall()
    pids = row["pids"]
    assert isinstance(pids, list)
    return pids


def wait_for_block(watcher: Connection, waiting: Connection, holder: Connection) -> None:
    pid = holder.info.backend_pid
    wait_until(lambda: blockers(watcher, waiting) == [pid])


def enqueue_late(
    thread: ThreadPoolExecutor, watcher: Connection, holder: Connection, late: Connection
) -> Future[Row]:
    future = thread.submit(enqueue_again, late, TENANT_A, payload={"late": True})
    wait_for_block(watcher, late, holder)
    return future


def test_the_second_of_two_sessions_waits_and_gets_the_first_ones_job(
    conn: Connection, connect: Connect, thread: ThreadPoolExecutor
) -> None:
    definition(conn)
    early, late = connect(autocommit=False), connect()
    first = enqueue_one(early, key="k")
    future = enqueue_late(thread, conn, early, late)
    early.commit()
    assert future.result(30) == {"index": 0, "job_id": first, "status": "existing"}
    assert count(conn, "jobs") == 1


def test_after_a_rollback_the_waiting_session_takes_the_key(
    conn: Connection, connect: Connect, thread: ThreadPoolExecutor
) -> None:
    definition(conn)
    early, late = connect(autocommit=False), connect()
    first = enqueue_one(early, key="k")
    future = enqueue_late(thread, conn, early, late)
    early.rollback()
    row = future.result(30)
    assert row["status"] == "created"
    assert row["job_id"] != first
    assert job_of(conn, TENANT_A, row["job_id"])["payload"] == {"late": True}


def test_batches_with_keys_in_opposite_order_do_not_deadlock(
    conn: Connection, connect: Connect, thread: ThreadPoolExecutor
) -> None:
    definition(conn)
    holder, one, two = connect(autocommit=False), connect(), connect()
    enqueue_one(holder, key="b")
    # `one` has taken `a` when it waits for the locked `b`. `two` names `b` first, and must still
    # wait for `a`: if it waited for `b`, each session could get one of the keys.
    futures = [thread.submit(batch, one, {"key": "a"}, {"key": "b"})]
    wait_for_block(conn, one, holder)
    futures.append(thread.submit(batch, two, {"key": "b"}, {"key": "a"}))
    wait_for_block(conn, two, one)
    holder.rollback()
    [a, b], [again_b, again_a] = (future.result(30) for future in futures)
    assert [a["status"], b["status"]] == ["created", "created"]
    assert (again_a["job_id"], again_b["job_id"]) == (a["job_id"], b["job_id"])


@pytest.mark.parametrize("outcome", ["snoozed", "released"])
def test_a_job_that_was_released_or_snoozed_has_started(conn: Connection, outcome: str) -> None:
    definition(conn)
    first, worker = enqueue_one(conn, key="k"), new_worker()
    complete(conn, worker, claim(conn, worker), outcome)
    row = enqueue_again(conn, TENANT_A, on_conflict="replace")
    assert (row["status"], row["job_id"]) == ("existing", first)
    assert job_of(conn, TENANT_A, first)["payload"] == {}


def test_jobs_are_replaced_in_the_order_in_which_other_sessions_lock_them(
    conn: Connection, connect: Connect, thread: ThreadPoolExecutor
) -> None:
    definition(conn)
    older, _ = (enqueue_one(conn, key=key) for key in "ba")
    holder, one, two = connect(autocommit=False), connect(), connect()
    holder.execute("select from jobforge.jobs where id = %s for update", [older])
    canceled = thread.submit(call, one, "cancel_jobs", filter={}, tenant_id=TENANT_A)
    wait_for_block(conn, one, holder)
    options = {"on_conflict": "replace"}
    replaced = thread.submit(batch, two, {"key": "a", **options}, {"key": "b", **options})
    wait_for_block(conn, two, one)
    holder.rollback()
    assert canceled.result(30) == [{"cancel_jobs": 2}]
    assert {row["status"] for row in replaced.result(30)} == {"existing"}


def test_many_sessions_with_one_key_create_one_job(conn: Connection, connect: Connect) -> None:
    definition(conn)
    sessions = [connect() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(lambda session: enqueue_again(session, TENANT_A), sessions))
    assert len({row["job_id"] for row in rows}) == 1
    assert sorted(row["status"] for row in rows) == ["created"] + ["existing"] * 7


def test_a_revived_job_still_holds_its_key(conn: Connection, clock: Clock) -> None:
    definition(conn, max_attempts=2, backoff_base_s=60)
    dead = prepare(conn, clock, "dead", key="k", key_mode="active")
    call_for_value(conn, "retry_job", job_id=dead.job, tenant_id=dead.tenant)
    assert enqueue_again(conn, dead.tenant)["job_id"] == dead.job


def test_a_new_job_created_by_retry_leaves_the_key_with_the_old_one(
    conn: Connection, clock: Clock
) -> None:
    definition(conn, max_attempts=2, backoff_base_s=60)
    done = prepare(conn, clock, "succeeded", key="k")
    made = call_for_value(conn, "retry_job", job_id=done.job, tenant_id=done.tenant)
    assert job_of(conn, done.tenant, made)["idempotency_key"] is None
    assert enqueue_again(conn, done.tenant)["job_id"] == done.job


def test_an_expired_key_is_taken_over_by_one_session_only(
    conn: Connection, connect: Connect
) -> None:
    """Of several concurrent sessions, only one gets the key of a window that has ended."""
    definition(conn)
    clock = Clock(conn)
    tenant = uuid4()
    enqueue_one(conn, tenant, key="k", key_mode="window", key_window_s=5)
    clock.travel(seconds=10)
    sessions = [connect() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(lambda session: enqueue_again(session, tenant), sessions))
    assert len({row["job_id"] for row in rows}) == 1
    assert count(conn, "jobs", tenant) == 2
