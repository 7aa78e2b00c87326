"""enqueue_job has a separate path for plain jobs; it creates the same rows as enqueue_jobs."""

import psycopg
import pytest
from cluster import Connection
from psycopg.types.json import Jsonb
from sql.engine import TENANT_A, Json, Row, call, definition
from sql.state_machine import stop_time

SAME: list[Json] = [
    {},
    {"priority": 7},
    {"queue": "other"},
    {"version": 1},
    {"max_attempts": 2, "timeout_s": 9},
    {"tags": ["a", "b"]},
    {"tags": []},
    {"limit_key": "k"},
    {"correlation_id": "c", "traceparent": "00-ab", "created_by": "me", "artifact_ref": "x"},
    {"delay_s": 5},
    {"delay_s": 0, "run_at": "2020-01-01T00:00:00Z"},
    {"run_at": "2200-01-01T00:00:00Z", "far_future": True, "delay_s": 5},
    {"expires_in_s": 60},
    {"expires_at": "2200-01-01T00:00:00Z", "expires_in_s": 60},
    {"key": "k"},
]
WRONG: list[Json] = [
    {"priority": 40_000},
    {"priority": "high"},
    {"queue": "no such name!"},
    {"version": 0},
    {"version": 99},
    {"max_attempts": 0},
    {"tags": "a"},
    {"limit_key": ""},
    {"created_by": "x" * 300},
    {"state": "running"},
    {"source": "system"},
    {"run_at": "infinity"},
    {"run_at": "2200-01-01T00:00:00Z"},
    {"delay_s": 1e8},
    {"expires_in_s": -1},
]


@pytest.mark.parametrize("options", SAME, ids=str)
@pytest.mark.parametrize("settings", [{}, {"max_running": 1}, {"max_running_per_key": 1}], ids=str)
def test_one_job_is_stored_as_if_enqueued_in_a_batch(
    conn: Connection, settings: Json, options: Json
) -> None:
    stop_time(conn)
    definition(conn, **settings)
    many = [{"definition": "test", "payload": {"n": 1}, **options}]
    call(conn, "enqueue_jobs", jobs=many, tenant_id=TENANT_A)
    expected = pop_job(conn)
    enqueue_job(conn, {"n": 1}, options)
    assert pop_job(conn) == expected


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_one_job_is_refused_as_if_enqueued_in_a_batch(conn: Connection, options: Json) -> None:
    definition(conn)
    many = [{"definition": "test", "payload": {}, **options}]
    with pytest.raises(psycopg.Error) as among_many:
        call(conn, "enqueue_jobs", jobs=many, tenant_id=TENANT_A)
    with pytest.raises(psycopg.Error) as alone:
        enqueue_job(conn, {}, options)
    assert alone.value.sqlstate == among_many.value.sqlstate
    assert alone.value.diag.message_detail == among_many.value.diag.message_detail


def enqueue_job(conn: Connection, payload: Json, options: Json) -> None:
    call(
        conn,
        "enqueue_job",
        definition="test",
        payload=Jsonb(payload),
        options=Jsonb(options),
        tenant_id=TENANT_A,
    )


def pop_job(conn: Connection) -> Row:
    """Return the only job of the table, and empty the table."""
    conn.execute("delete from jobforge.idempotency_keys")
    [row] = conn.execute("delete from jobforge.jobs returning *").fetchall()
    return {name: value for name, value in row.items() if name != "id"}


def test_plans_cached_on_an_empty_table_do_not_read_the_backlog_later(conn: Connection) -> None:
    definition(conn)
    enqueue_until_plans_are_kept(conn)
    call(conn, "enqueue_jobs", jobs=[{"definition": "test"}] * 2_000, tenant_id=TENANT_A)
    assert_backlog_is_not_read(conn)


def test_statistics_of_a_single_job_do_not_lead_to_reading_the_backlog(conn: Connection) -> None:
    definition(conn)
    enqueue_job(conn, {}, {})
    conn.execute("vacuum analyze jobforge.jobs")
    call(conn, "enqueue_jobs", jobs=[{"definition": "test"}] * 2_000, tenant_id=TENANT_A)
    conn.execute("discard plans")
    enqueue_until_plans_are_kept(conn)
    assert_backlog_is_not_read(conn)


def enqueue_until_plans_are_kept(conn: Connection) -> None:
    for _ in range(10):
        enqueue_each_way(conn)


def assert_backlog_is_not_read(conn: Connection) -> None:
    with conn.transaction():
        before = rows_read(conn)
        enqueue_each_way(conn)
        assert rows_read(conn) - before < 10


def enqueue_each_way(conn: Connection) -> None:
    enqueue_job(conn, {}, {})
    call(conn, "enqueue_jobs", jobs=[{"definition": "test"}], tenant_id=TENANT_A)
    call(conn, "enqueue_payloads", definition="test", payloads=[{}], tenant_id=TENANT_A)


def rows_read(conn: Connection) -> int:
    """Return the number of rows of jobs that this transaction has read."""
    [row] = conn.execute(
        """
        select seq_tup_read + coalesce(idx_tup_fetch, 0) as read
          from pg_stat_xact_user_tables where relid = 'jobforge.jobs'::regclass
        """
    ).fetchall()
    return int(row["read"])
