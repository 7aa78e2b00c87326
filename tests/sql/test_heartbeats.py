"""Heartbeats extend leases while other sessions lock the job's row; `ok` always means extended.

The reaper and a heartbeat synchronize on the job's row in `heartbeats`: the first to lock it wins.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from cluster import Clock, Connect, Connection
from sql.background_call import in_background, wait_until_blocked
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    as_tenant,
    call,
    call_for_value,
    claim,
    complete,
    count,
    definition,
    enqueue,
    enqueue_one,
    heartbeat,
    job_of,
    new_worker,
    reap,
    refused,
    state_of,
)
from sql.mutation import mutate

HELD_UP = "'100ms'"  # how long heartbeats and the reaper wait for each other


@pytest.fixture
def worker(conn: Connection) -> UUID:
    definition(conn, max_attempts=1)
    return new_worker()


def started(conn: Connection, worker: UUID, tenant: UUID = TENANT_A) -> Row:
    enqueue(conn, tenant)
    [job] = claim(conn, worker, tenants=[tenant])
    return job


def beat(conn: Connection, worker: UUID, *jobs: Row, lease_s: float = 30) -> list[str]:
    """Return the status of each job, in the order given."""
    answers = {row["job_id"]: row["status"] for row in heartbeat(conn, worker, jobs, lease_s)}
    return [answers[job["job_id"]] for job in jobs]


def reaped(conn: Connection) -> set[UUID]:
    return {row["job_id"] for row in reap(conn)}


def beat_row(conn: Connection, job: Row) -> Row:
    query = "select * from jobforge.heartbeats where job_id = %s"
    [row] = conn.execute(query, [job["job_id"]]).fetchall()
    return row


def hold_heartbeat(holder: Connection, job: Row) -> None:
    holder.execute("select from jobforge.heartbeats where job_id = %s for update", [job["job_id"]])


# Another session locks the row of the job.


def _await_it(holder: Connection, job: Row) -> None:
    enqueue_one(holder, after=[str(job["job_id"])])


def _cancel_it(holder: Connection, job: Row) -> None:
    call(holder, "cancel_job", job_id=job["job_id"], tenant_id=TENANT_A)


@pytest.mark.parametrize(
    ("hold", "afterwards"), [(_await_it, "ok"), (_cancel_it, "cancel")], ids=["after", "cancel"]
)
def test_a_job_whose_row_an_open_transaction_locks_keeps_its_lease(
    conn: Connection,
    connect: Connect,
    clock: Clock,
    worker: UUID,
    hold: Callable[[Connection, Row], None],
    afterwards: str,
) -> None:
    job, holder = started(conn, worker), connect(autocommit=False)
    hold(holder, job)
    for _ in range(5):
        clock.travel(seconds=10)
        assert beat(conn, worker, job) == ["ok"]
        assert reaped(conn) == set()
    holder.commit()
    assert reaped(conn) == set()
    assert beat(conn, worker, job) == [afterwards]
    clock.travel(seconds=31)
    assert reaped(conn) == {job["job_id"]}, "a lease that is not extended expires"


def test_a_heartbeat_does_not_write_the_job(conn: Connection, worker: UUID) -> None:
    job = started(conn, worker)
    query = "select ctid, xmin, xmax from jobforge.jobs"
    before = conn.execute(query).fetchall()
    for _ in range(2):
        assert beat(conn, worker, job) == ["ok"]
    assert conn.execute(query).fetchall() == before


def test_heartbeats_are_heap_only_updates(conn: Connection, worker: UUID) -> None:
    enqueue(conn, n=50)
    jobs = claim(conn, worker, limit=50)
    beat(conn, worker, *jobs)
    with conn.transaction():
        beat(conn, worker, *jobs)
        [row] = conn.execute(
            "select pg_stat_get_xact_tuples_updated(c) as updates,"
            " pg_stat_get_xact_tuples_hot_updated(c) as heap_only"
            " from (values ('jobforge.heartbeats'::regclass)) as t(c)"
        ).fetchall()
    assert (row["updates"], row["heap_only"]) == (50, 50)


def test_a_heartbeat_does_not_wait_for_a_lock_on_its_worker_row(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID
) -> None:
    call(conn, "register_worker", worker_id=worker, queues=["default"], slots=1)
    job, holder = started(conn, worker), connect(autocommit=False)
    call(holder, "drain_worker", worker_id=worker)
    clock.travel(seconds=20)
    beating = connect()
    beating.execute("set lock_timeout = '1ms'")  # fails on any lock wait
    assert beat(beating, worker, job) == ["ok"]
    clock.travel(seconds=20)
    assert reaped(conn) == set()
    holder.commit()
    assert [row["status"] for row in heartbeat(conn, worker, [job])] == ["ok", "drain"]


# Another session locks the row of the heartbeat.


def test_a_heartbeat_that_cannot_be_written_is_held_and_extends_nothing(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID
) -> None:
    job, other = started(conn, worker), started(conn, worker)
    assert beat(conn, worker, job, other) == ["ok", "ok"]
    before, holder = beat_row(conn, job), connect(autocommit=False)
    hold_heartbeat(holder, job)
    clock.travel(seconds=10)
    assert beat(conn, worker, job, other) == ["held", "ok"]
    holder.rollback()
    assert beat_row(conn, job) == before
    assert beat(conn, worker, job, other) == ["ok", "ok"]
    assert beat_row(conn, job)["expires_at"] > before["expires_at"]


def test_a_first_heartbeat_that_cannot_be_written_is_held(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    known, job = started(conn, worker), started(conn, worker)
    beat(conn, worker, known)
    twin = connect(autocommit=False)
    assert beat(twin, worker, job) == ["ok"]
    assert beat(conn, worker, known, job) == ["ok", "held"]
    twin.rollback()
    assert beat(conn, worker, known, job) == ["ok", "ok"]


def test_a_cancel_is_reported_once_the_lease_can_be_extended(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    job, holder = started(conn, worker), connect(autocommit=False)
    beat(conn, worker, job)
    _cancel_it(conn, job)
    hold_heartbeat(holder, job)
    assert beat(conn, worker, job) == ["held"]
    holder.rollback()
    assert beat(conn, worker, job) == ["cancel"]


def test_the_single_form_supports_held(conn: Connection, connect: Connect, worker: UUID) -> None:
    job, holder = started(conn, worker), connect(autocommit=False)
    token = {name: job[name] for name in ("tenant_id", "job_id", "lease")}
    beat(conn, worker, job)
    hold_heartbeat(holder, job)
    assert call_for_value(conn, "heartbeat_job", worker_id=worker, **token) == "held"
    holder.rollback()
    assert call_for_value(conn, "heartbeat_job", worker_id=worker, **token) == "ok"
    complete(conn, worker, [job])
    with refused("JF003"):
        call(conn, "heartbeat_job", worker_id=worker, **token)


def test_a_blocked_heartbeat_does_not_prevent_the_reaping_of_other_jobs(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID
) -> None:
    known, fresh, other = (started(conn, worker) for _ in range(3))
    beat(conn, worker, known)
    clock.travel(minutes=1)
    holders = [connect(autocommit=False) for _ in range(2)]
    hold_heartbeat(holders[0], known)
    assert beat(holders[1], worker, fresh) == ["ok"]
    assert reaped(conn) == {other["job_id"]}
    for holder in holders:
        holder.rollback()
    assert reaped(conn) == {known["job_id"], fresh["job_id"]}


# The reaper and a concurrent heartbeat.


@pytest.mark.parametrize("is_first", [True, False])
def test_the_reaper_leaves_a_job_whose_heartbeat_is_being_written(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID, *, is_first: bool
) -> None:
    job, beating = started(conn, worker), connect(autocommit=False)
    if not is_first:
        beat(conn, worker, job)
    clock.travel(minutes=1)
    assert beat(beating, worker, job) == ["ok"]
    assert reaped(conn) == set()
    beating.commit()
    assert reaped(conn) == set()
    assert state_of(conn, TENANT_A, job["job_id"]) == "running"


def test_a_reaper_that_waited_for_a_first_heartbeat_leaves_the_job(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID
) -> None:
    mutate(conn, "reserve_heartbeats", HELD_UP, "'30s'")
    job, beating, reaping = started(conn, worker), connect(autocommit=False), connect()
    clock.travel(minutes=1)
    assert beat(beating, worker, job) == ["ok"]
    with in_background(reaping, reaped) as future:
        wait_until_blocked(conn, reaping, future)
        beating.commit()
        assert future.result(30) == set()
    assert beat(conn, worker, job) == ["ok"]


def test_a_first_heartbeat_that_waited_for_the_reaper_is_lost(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID
) -> None:
    assert _beat_against_the_reaper(conn, connect, clock, worker, commits=True) == ["lost"]


def test_a_first_heartbeat_that_waited_for_a_reaper_that_was_rolled_back_extends_the_lease(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID
) -> None:
    assert _beat_against_the_reaper(conn, connect, clock, worker, commits=False) == ["ok"]


def _beat_against_the_reaper(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID, *, commits: bool
) -> list[str]:
    mutate(conn, "insert_heartbeats", HELD_UP, "'30s'")
    job, reaping, beating = started(conn, worker), connect(autocommit=False), connect()
    clock.travel(minutes=1)
    assert reaped(reaping) == {job["job_id"]}
    with in_background(beating, lambda other: beat(other, worker, job)) as future:
        wait_until_blocked(conn, beating, future)
        reaping.commit() if commits else reaping.rollback()
        return future.result(30)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_heartbeat_does_not_wait_for_the_reaper(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID, *, is_first: bool
) -> None:
    job, reaping = started(conn, worker), connect(autocommit=False)
    if not is_first:
        beat(conn, worker, job)
    clock.travel(minutes=1)
    assert reaped(reaping) == {job["job_id"]}
    with in_background(connect(), lambda other: beat(other, worker, job)) as future:
        assert future.result(5) == ["held"]
    reaping.commit()
    assert beat(conn, worker, job) == ["lost"]


# Rows that the reaper reads.


def test_the_reaper_reads_an_extended_lease_once(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    job = started(conn, worker)
    clock.travel(seconds=20)
    beat(conn, worker, job)
    clock.travel(seconds=20)
    assert reaped(conn) == set()
    [row] = conn.execute("select lease_expires_at from jobforge.jobs").fetchall()
    assert row["lease_expires_at"] == beat_row(conn, job)["expires_at"] > clock.now()


def test_extended_leases_do_not_hide_a_lost_one(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    alive = [started(conn, worker) for _ in range(3)]
    lost = started(conn, worker)
    clock.travel(seconds=20)
    beat(conn, worker, *alive)
    clock.travel(seconds=20)
    assert [row["job_id"] for row in reap(conn, limit=1)] == [lost["job_id"]]


def test_a_heartbeat_of_the_previous_lease_does_not_extend_the_new_one(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    definition(conn, max_attempts=3)
    job = started(conn, worker)
    beat(conn, worker, job, lease_s=3600)
    complete(conn, worker, [job], "failed", retry_in_s=0)
    assert [row["job_id"] for row in claim(conn, new_worker())] == [job["job_id"]]
    clock.travel(seconds=31)
    assert beat(conn, worker, job) == ["lost"]
    assert reaped(conn) == {job["job_id"]}


# Outages.


@pytest.mark.parametrize("outage_s", [20, 120])
def test_after_an_outage_live_workers_report_before_leases_are_ended(
    conn: Connection, clock: Clock, worker: UUID, outage_s: float
) -> None:
    dead = new_worker()
    alive, lost = started(conn, worker), started(conn, dead)
    clock.travel(seconds=15)
    assert reaped(conn) == set()
    clock.pass_without_reaping(seconds=outage_s)
    assert reaped(conn) == set()
    clock.travel(seconds=15)
    assert beat(conn, worker, alive) == ["ok"]
    assert reaped(conn) == set()
    clock.travel(seconds=16)
    assert reaped(conn) == {lost["job_id"]}
    assert state_of(conn, TENANT_A, lost["job_id"]) == "dead"
    assert state_of(conn, TENANT_A, alive["job_id"]) == "running"


def test_without_an_outage_a_lease_is_ended_when_it_expires(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    job = started(conn, worker)
    for _ in range(2):
        clock.travel(seconds=10)
        assert reaped(conn) == set()
    clock.travel(seconds=11)
    assert reaped(conn) == {job["job_id"]}


def test_a_lease_that_expires_after_an_outage_is_ended_at_that_time(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    """The only worker was killed, and its successor starts before the lease has expired."""
    job = started(conn, worker)
    assert reaped(conn) == set()
    clock.pass_without_reaping(seconds=20)
    assert reaped(conn) == set()
    clock.travel(seconds=11)
    assert reaped(conn) == {job["job_id"]}


def test_a_gap_too_short_to_miss_a_heartbeat_gives_no_grace(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    """Workers extend a lease before half of it has passed."""
    job = started(conn, worker)
    clock.travel(seconds=20)
    assert reaped(conn) == set()
    clock.pass_without_reaping(seconds=11)
    assert reaped(conn) == {job["job_id"]}


def test_a_second_outage_soon_after_the_first_continues_it(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    job = started(conn, worker)
    for gap_s in (0, 60, 10):
        clock.pass_without_reaping(seconds=gap_s)
        assert reaped(conn) == set()
    clock.travel(seconds=25)
    assert reaped(conn) == set()
    clock.travel(seconds=6)
    assert reaped(conn) == {job["job_id"]}


def test_a_worker_that_signed_off_gets_no_grace(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    call(conn, "register_worker", worker_id=worker, queues=["default"], slots=1)
    job = started(conn, worker)
    call(conn, "unregister_worker", worker_id=worker)
    assert reaped(conn) == set()
    clock.pass_without_reaping(minutes=2)
    assert reaped(conn) == {job["job_id"]}


def test_the_workers_of_one_tenant_have_separate_outages(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    jobs = {tenant: started(conn, worker, tenant)["job_id"] for tenant in (TENANT_A, TENANT_B)}

    def reaped_by_its_own() -> set[UUID]:
        with as_tenant(conn, TENANT_A):
            return reaped(conn)

    assert reaped_by_its_own() == set()
    clock.pass_without_reaping(minutes=2)
    assert reaped_by_its_own() == set()
    clock.travel(seconds=31)
    assert reaped_by_its_own() == {jobs[TENANT_A]}
    assert reaped(conn) == {jobs[TENANT_B]}, "no worker has ever reaped for all tenants"


def test_a_tenant_that_reaps_does_not_hide_an_outage_of_the_others(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    job = started(conn, worker, TENANT_B)["job_id"]
    assert reaped(conn) == set()
    for _ in range(60):
        clock.pass_without_reaping(seconds=2)
        with as_tenant(conn, TENANT_A):
            assert reaped(conn) == set()
    assert reaped(conn) == set()
    clock.travel(seconds=31)
    assert reaped(conn) == {job}


def test_a_reaper_that_cannot_record_its_call_still_reaps(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID
) -> None:
    job, holder = started(conn, worker), connect(autocommit=False)
    holder.execute("select from jobforge.reaper for update")
    clock.travel(seconds=31)
    with in_background(connect(), reaped) as future:
        assert future.result(5) == {job["job_id"]}


def test_the_time_of_the_last_reap_is_written_once_a_second(conn: Connection, clock: Clock) -> None:
    def written() -> datetime:
        [row] = conn.execute("select reaped_at from jobforge.reaper").fetchall()
        assert isinstance(row["reaped_at"], datetime)
        return row["reaped_at"]

    conn.execute(
        "create or replace function jobforge_private.now() returns timestamptz"
        " language sql volatile as $$ select '2030-01-01'::timestamptz + c.offset_interval"
        " from public.test_clock as c $$"
    )
    reap(conn)
    first = written()
    clock.pass_without_reaping(seconds=0.9)
    reap(conn)
    assert written() == first
    clock.pass_without_reaping(seconds=0.1)
    reap(conn)
    assert written() > first


def test_explain_says_until_when_a_worker_may_report(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    job = started(conn, worker)

    def explained() -> Row:
        [row] = call(conn, "explain_job", job_id=job["job_id"], tenant_id=TENANT_A)
        return row

    reap(conn)
    clock.pass_without_reaping(minutes=2)
    assert "grace_until" not in explained()["detail"], "no worker has reaped yet"
    reap(conn)
    row = explained()
    assert row["code"] == "lease_expired"
    [noted] = conn.execute("select outage_until from jobforge.reaper").fetchall()
    until = datetime.fromisoformat(row["detail"]["grace_until"])
    assert until - noted["outage_until"] == timedelta(seconds=30), "a lease of that length again"
    assert "has until" in row["message"]
    clock.travel(seconds=31)
    row = explained()
    assert (row["code"], "grace_until" in row["detail"]) == ("lease_expired", False)
    assert "stopped renewing" in row["message"]


# Where the lease is shown.


def test_the_extended_lease_is_shown_everywhere(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    job = started(conn, worker)
    before = job_of(conn, TENANT_A, job["job_id"])
    assert before["heartbeat_at"] == before["started_at"]
    clock.travel(seconds=20)
    beat(conn, worker, job)
    clock.travel(seconds=20)
    stored = beat_row(conn, job)
    row = job_of(conn, TENANT_A, job["job_id"])
    assert (row["heartbeat_at"], row["lease_expires_at"]) == (
        stored["beat_at"],
        stored["expires_at"],
    )
    [holder] = call(conn, "list_holders", queue="default")
    assert holder["lease_expires_at"] == stored["expires_at"]
    [reason] = call(conn, "explain_job", job_id=job["job_id"], tenant_id=TENANT_A)
    assert reason["code"] == "running"
    assert _expired_leases(conn) == 0
    clock.travel(seconds=20)
    assert _expired_leases(conn) == 1
    complete(conn, worker, [job], "failed")
    row = job_of(conn, TENANT_A, job["job_id"])
    assert (row["heartbeat_at"], row["lease_expires_at"]) == (None, None)


def _expired_leases(conn: Connection) -> float:
    [value] = [
        row["value"] for row in call(conn, "read_gauges") if row["gauge"] == "expired_leases"
    ]
    assert isinstance(value, float)
    return value


def test_tenants_see_only_their_own_heartbeats(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    for tenant in (TENANT_A, TENANT_B):
        beat(conn, worker, started(conn, worker, tenant))
    client = connect("client_login")
    with client.transaction():
        client.execute("select set_config('app.tenant_id', %s, true)", [str(TENANT_A)])
        rows = client.execute("select tenant_id from jobforge.heartbeats").fetchall()
    assert [row["tenant_id"] for row in rows] == [TENANT_A]
    with refused("42501"):
        client.execute("delete from jobforge.heartbeats")


def test_retention_deletes_heartbeats_of_ended_leases_only(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    ended = [started(conn, worker) for _ in range(3)]
    running, silent = started(conn, worker), started(conn, worker)
    beat(conn, worker, *ended, silent)
    complete(conn, worker, ended)
    assert call_for_value(conn, "apply_retention")["heartbeats"] == 0, "they have not expired yet"
    clock.travel(seconds=31)
    beat(conn, worker, running)
    assert call_for_value(conn, "apply_retention", limit=2)["heartbeats"] == 2
    assert call_for_value(conn, "apply_retention", limit=2)["heartbeats"] == 1
    assert count(conn, "heartbeats") == 2
