"""History: its partitions, what retention removes, and the erasure of a tenant."""

from datetime import UTC, date, timedelta
from typing import Any
from uuid import UUID

import pytest
from cluster import Clock, Connect, Connection
from psycopg.types.json import Jsonb
from sql.background_call import in_background, wait_until_blocked
from sql.engine import (
    TENANT_A,
    TENANT_B,
    call,
    call_for_value,
    claim,
    complete,
    count,
    definition,
    enqueue,
    enqueue_one,
    erase,
    heartbeat,
    job_of,
    new_worker,
    refused,
)
from sql.mutation import mutate

# The history of a job, and all tables with daily partitions.
HISTORY = ["finished_jobs", "attempts", "job_events"]
PARTITIONED = [
    *HISTORY,
    *("events", "event_deliveries", "webhook_deliveries", "minute_statistics"),
]


def partitions(conn: Connection, table: str) -> list[str]:
    """Return the days of a table's partitions, as in their names."""
    rows = conn.execute(
        "select right(c.relname, 8) as day from pg_inherits as i"
        " join pg_class as c on c.oid = i.inhrelid"
        " where i.inhparent = %s::regclass and c.relname ~ '_[0-9]{8}$' order by 1",
        [f"jobforge.{table}"],
    ).fetchall()
    return [row["day"] for row in rows]


def days(first: date, last: date) -> list[str]:
    span = (last - first).days
    return [f"{first + timedelta(days=n):%Y%m%d}" for n in range(span + 1)]


def new_days(conn: Connection, **arguments: int) -> int:
    """Return how many daily partitions ensure_partitions creates; a new month is not counted."""
    before = len(partitions(conn, "audit_log"))
    created = call_for_value(conn, "ensure_partitions", **arguments)
    assert isinstance(created, int)
    return created - len(partitions(conn, "audit_log")) + before


def today(clock: Clock) -> date:
    return clock.now().astimezone(UTC).date()


def finish(conn: Connection, tenant: UUID = TENANT_A, outcome: str = "succeeded") -> UUID:
    """Run a job to its end, with one row in each history table."""
    job, worker = enqueue_one(conn, tenant, queue="finishing"), new_worker()
    rows = claim(conn, worker, "finishing", tenants=[tenant])
    call(conn, "cancel_job", job_id=job, tenant_id=tenant)
    complete(conn, worker, rows, outcome)
    return job


def rows_in_default(conn: Connection) -> dict[str, int]:
    return {table: count(conn, f"{table}_default") for table in HISTORY}


def retain(conn: Connection, **arguments: int) -> dict[str, Any]:
    answer = call_for_value(conn, "apply_retention", **arguments)
    assert isinstance(answer, dict)
    return answer


# Partitions.


def test_partitions_reach_from_yesterday_to_the_days_asked_for(
    conn: Connection, clock: Clock
) -> None:
    now = today(clock)
    expected = days(now - timedelta(days=1), now + timedelta(days=7))
    found = {table: partitions(conn, table) for table in PARTITIONED}
    assert found == dict.fromkeys(PARTITIONED, expected)
    assert call_for_value(conn, "ensure_partitions") == 0
    assert new_days(conn, days=9) == 2 * len(PARTITIONED)
    assert partitions(conn, "attempts")[-1] == f"{now + timedelta(days=9):%Y%m%d}"


def test_rows_go_to_the_partition_of_their_day(conn: Connection, clock: Clock) -> None:
    definition(conn)
    clock.travel(days=3)
    finish(conn)
    day = f"{today(clock):%Y%m%d}"
    assert {count(conn, f"{table}_{day}") for table in HISTORY} == {1}
    assert set(rows_in_default(conn).values()) == {0}


@pytest.mark.parametrize("late", [0, 1, 3])
def test_rows_in_the_default_partition_move_to_their_day(
    conn: Connection, clock: Clock, late: int
) -> None:
    """Maintenance did not run for weeks, and then ran some days after the rows were written."""
    definition(conn)
    clock.travel(days=20)
    job = finish(conn)
    written = today(clock)
    assert set(rows_in_default(conn).values()) == {1}
    clock.travel(days=late)
    assert call_for_value(conn, "ensure_partitions") > 0
    assert set(rows_in_default(conn).values()) == {0}
    assert {count(conn, f"{table}_{written:%Y%m%d}") for table in HISTORY} == {1}
    assert job_of(conn, TENANT_A, job)["state"] == "succeeded"


def test_new_partitions_are_as_restricted_as_the_old_ones(
    conn: Connection, connect: Connect
) -> None:
    call(conn, "ensure_partitions", days=10)
    rows = conn.execute(
        "select c.relname from pg_inherits as i join pg_class as c on c.oid = i.inhrelid"
        " where i.inhparent in ('jobforge.attempts'::regclass, 'jobforge.finished_jobs'::regclass,"
        " 'jobforge.job_events'::regclass)"
        " and not (c.relrowsecurity and c.relforcerowsecurity)"
    ).fetchall()
    assert rows == []
    definition(conn)
    finish(conn)
    client = connect("client_login")
    day = partitions(conn, "attempts")[1]
    with refused("42501"):
        client.execute(f"select from jobforge.attempts_{day}".encode())
    with client.transaction():
        client.execute("select set_config('app.tenant_id', %s, true)", [str(TENANT_A)])
        assert client.execute("select from jobforge.attempts").rowcount == 1
    assert client.execute("select from jobforge.attempts").rowcount == 0


def test_a_second_caller_leaves_the_work_to_the_first(conn: Connection, connect: Connect) -> None:
    busy = connect(autocommit=False)
    call(busy, "ensure_partitions", days=9)
    assert call_for_value(conn, "ensure_partitions", days=9) == 0
    assert retain(conn) == {}
    busy.commit()
    assert partitions(conn, "attempts") != []


def test_a_reader_of_a_history_table_does_not_block_other_readers(
    conn: Connection, connect: Connect
) -> None:
    """A session that creates partitions would wait for the first reader, and all others
    behind it."""
    reader = connect(autocommit=False)
    reader.execute("select from jobforge.attempts")
    with in_background(connect(), _make_two_days) as future:
        assert future.result(5) == 2 * (len(PARTITIONED) - 1)
    reader.rollback()
    assert _make_two_days(conn) == 2


def test_a_row_inserted_while_partitions_are_created_moves_to_its_day(
    conn: Connection, connect: Connect, clock: Clock
) -> None:
    mutate(conn, "ensure_partitions", "'100ms'", "'30s'")
    definition(conn)
    for table in HISTORY:
        conn.execute(f"drop table jobforge.{table}_{today(clock):%Y%m%d}".encode())
    writer, keeper = connect(autocommit=False), connect()
    finish(writer)
    with in_background(keeper, _make_two_days) as future:
        wait_until_blocked(conn, keeper, future)
        writer.commit()
        assert future.result(30) == 2 * len(PARTITIONED) + len(HISTORY)
    assert set(rows_in_default(conn).values()) == {0}


def _make_two_days(conn: Connection) -> int:
    return new_days(conn, days=9)


def test_workers_may_run_maintenance(conn: Connection, connect: Connect) -> None:
    worker = connect("worker_login")
    assert call_for_value(worker, "ensure_partitions", days=9) > 0
    assert retain(worker)["partitions"] == []
    assert count(conn, "jobs") == 0


# Retention.


def test_only_history_is_dropped_by_age(conn: Connection, clock: Clock) -> None:
    definition(conn)
    old = finish(conn)
    first = today(clock)
    clock.travel(days=10)
    call(conn, "ensure_partitions")
    recent, waiting = finish(conn), enqueue_one(conn)
    clock.travel(days=5)
    answer = retain(conn)
    gone = days(first - timedelta(days=1), first)
    assert sorted(answer["partitions"]) == sorted(f"{t}_{d}" for t in PARTITIONED for d in gone)
    rows = conn.execute("select id from jobforge.all_jobs").fetchall()
    assert {row["id"] for row in rows} == {recent, waiting}
    assert {count(conn, table) for table in HISTORY} == {1}
    assert old not in {recent, waiting}
    assert retain(conn)["partitions"] == []


def test_history_is_kept_for_the_configured_number_of_whole_days(
    conn: Connection, clock: Clock
) -> None:
    definition(conn)
    finish(conn)
    clock.travel(days=3)
    assert (
        f"attempts_{today(clock) - timedelta(days=3):%Y%m%d}"
        not in retain(conn, history_days=3)["partitions"]
    )
    assert count(conn, "finished_jobs") == 1
    retain(conn, history_days=2)
    assert count(conn, "finished_jobs") == 0


def test_history_in_the_default_partition_is_dropped_by_age_too(
    conn: Connection, clock: Clock
) -> None:
    definition(conn)
    clock.travel(days=20)
    finish(conn)
    clock.travel(days=30)
    call(conn, "ensure_partitions")
    retain(conn)
    assert {table: count(conn, table) for table in HISTORY} == dict.fromkeys(HISTORY, 0)


def kill(conn: Connection, n: int) -> list[UUID]:
    jobs, worker = enqueue(conn, n=n, queue="dying"), new_worker()
    complete(conn, worker, claim(conn, worker, "dying", n), "failed", final=True)
    return jobs


def test_dead_jobs_are_kept_for_ninety_days(conn: Connection, clock: Clock) -> None:
    definition(conn)
    kill(conn, 3)
    clock.travel(days=50)
    young = kill(conn, 1)
    waiting = enqueue_one(conn, delay_s=3600)
    clock.travel(days=39)
    assert retain(conn)["dead_jobs"] == 0
    clock.travel(days=2)
    assert retain(conn, limit=2)["dead_jobs"] == 2
    assert retain(conn, limit=2)["dead_jobs"] == 1
    assert retain(conn, dead_days=10)["dead_jobs"] == len(young)
    rows = conn.execute("select id from jobforge.jobs").fetchall()
    assert [row["id"] for row in rows] == [waiting]


def test_a_sweep_that_fails_is_reported_and_does_not_stop_others(
    conn: Connection, clock: Clock
) -> None:
    call(conn, "ensure_partitions")
    definition(conn)
    kill(conn, 1)
    mutate(
        conn,
        "sweep_workflows",
        "perform jobforge_private.cancel_rows",
        "raise 'broken'; perform jobforge_private.cancel_rows",
    )
    mutate(
        conn,
        "sweep_steps",
        "delete from jobforge.steps",
        "perform pg_sleep(3600); delete from jobforge.steps",
    )
    clock.travel(days=100)
    with conn.transaction():
        conn.execute("set local statement_timeout = '500ms'")
        gone = retain(conn)
    assert (gone["failed"]["workflows"], "steps" in gone["failed"]) == ("broken", True)
    assert (gone["dead_jobs"], gone["firings"]) == (1, 0)
    assert f"attempts_{today(clock) - timedelta(days=100):%Y%m%d}" in gone["partitions"]


def test_expired_keys_are_removed(conn: Connection, clock: Clock) -> None:
    definition(conn)
    enqueue_one(conn, key="retained")
    enqueue_one(conn, key="window", key_mode="window", key_window_s=60)
    clock.travel(days=1)
    assert retain(conn)["idempotency_keys"] == 1
    clock.travel(days=30)
    assert retain(conn)["idempotency_keys"] == 1
    assert count(conn, "idempotency_keys") == 0


def test_the_key_of_a_waiting_job_is_not_freed_by_age(conn: Connection, clock: Clock) -> None:
    definition(conn)
    job = enqueue_one(conn, key="k", key_mode="active", delay_s=200 * 86400)
    clock.travel(days=40)
    retain(conn)
    assert enqueue_one(conn, key="k", key_mode="active") == job


def test_a_reader_of_the_history_does_not_block_settlements(
    conn: Connection, connect: Connect, clock: Clock
) -> None:
    definition(conn)
    clock.travel(days=20)
    expired = enqueue_one(conn, key="k", key_mode="window", key_window_s=0)
    reader, keeper, worker = connect(autocommit=False), connect(), new_worker()
    jobs = claim(conn, worker)
    reader.execute("select from jobforge.finished_jobs")
    with in_background(keeper, retain) as future:
        assert complete(connect(), worker, jobs)[0]["job_id"] == expired
        gone = future.result(5)
    assert (gone["partitions"], gone["idempotency_keys"]) == (None, 1)
    reader.rollback()
    assert retain(conn)["partitions"]


def test_buckets_of_keys_are_deleted_when_they_are_full(conn: Connection, clock: Clock) -> None:
    definition(conn, rate_limit_per_key=1, rate_period_per_key_s=3 * 86400, rate_limit=9)
    enqueue_one(conn, limit_key="k")
    claim(conn, new_worker())
    for passed, left in ((2, 2), (2, 1)):
        clock.travel(days=passed)
        assert retain(conn)["buckets"] == 2 - left
        assert count(conn, "rate_limits") == left


def test_workers_that_stopped_a_day_ago_are_deleted(conn: Connection, clock: Clock) -> None:
    gone, alive = new_worker(), new_worker()
    for worker in [gone, alive]:
        call(conn, "register_worker", worker_id=worker, queues=["q"], slots=1)
    clock.travel(hours=23)
    assert retain(conn)["workers"] == 0
    call(conn, "heartbeat_jobs", worker_id=alive)
    clock.travel(hours=2)
    assert retain(conn)["workers"] == 1
    [row] = call(conn, "list_workers")
    assert row["id"] == alive


# Erasing a tenant.


def traces(conn: Connection, tenant: UUID) -> dict[str, int]:
    """Return the number of rows with a tenant's ID in any column, by table."""
    tables = conn.execute(
        "select c.relname from pg_class as c where c.relnamespace = 'jobforge'::regnamespace"
        " and c.relkind in ('r', 'p') and not c.relispartition"
    ).fetchall()
    found = {}
    for row in tables:
        query = f"select from jobforge.{row['relname']} as t where t::text like %s"
        found[row["relname"]] = conn.execute(query.encode(), [f"%{tenant}%"]).rowcount
    return {table: n for table, n in found.items() if n}


def populate(conn: Connection, tenant: UUID) -> None:
    settings = {"slug": f"t-{tenant.hex[:8]}", "rate_limit": 100}
    call(conn, "put_tenant", tenant_id=tenant, settings=settings)
    finish(conn, tenant)
    enqueue_one(conn, tenant, key="k")
    enqueue_one(conn, tenant, delay_s=60)
    worker = new_worker()
    enqueue(conn, tenant, n=2, queue="dying", limit_key="l")
    rows = claim(conn, worker, "dying", 2, tenants=[tenant])
    heartbeat(conn, worker, rows)
    complete(conn, worker, rows[:1], "failed", final=True)


def test_erasing_a_tenant_leaves_only_its_audit_log(conn: Connection) -> None:
    definition(conn, rate_limit_per_key=100)
    for tenant in [TENANT_A, TENANT_B]:
        populate(conn, tenant)
    others = traces(conn, TENANT_B)
    assert set(others) >= {
        "jobs",
        "heartbeats",
        "finished_jobs",
        "attempts",
        "job_events",
        "idempotency_keys",
        "tenants",
        "rate_limits",
        "audit_log",
    }
    counts = erase(conn, TENANT_A)
    assert (counts["jobs"], counts["finished_jobs"], counts["attempts"]) == (4, 1, 2)
    assert traces(conn, TENANT_A) == {"audit_log": 2, "operations": 1, "tenants": 1}
    assert traces(conn, TENANT_B) == others
    rows = conn.execute("select * from jobforge.audit_log where tenant_id is null").fetchall()
    assert {(row["action"], row["target"]) for row in rows} == {
        ("tenant.delete", str(TENANT_A)),
        ("tenant.erased", str(TENANT_A)),
    }


def test_the_lease_of_a_running_job_of_an_erased_tenant_is_lost(conn: Connection) -> None:
    definition(conn)
    enqueue_one(conn)
    worker = new_worker()
    rows = claim(conn, worker)
    call(conn, "delete_tenant", tenant_id=TENANT_A)
    [row] = complete(conn, worker, rows)
    assert row["status"] == "lost"
    tokens = Jsonb([{"tenant_id": str(TENANT_A), "job_id": str(row["job_id"]), "lease": 1}])
    [beat, _] = call(conn, "heartbeat_jobs", worker_id=worker, jobs=tokens)
    assert beat["status"] == "lost"
    assert (count(conn, "finished_jobs"), count(conn, "attempts")) == (0, 0)


def test_erasing_an_unknown_tenant_is_audited_and_not_an_error(conn: Connection) -> None:
    assert set(erase(conn, TENANT_A).values()) == {0}
    assert count(conn, "audit_log") == 2
