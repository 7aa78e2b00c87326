"""The connection that a database keeps outside its pool: after any failure, the next call works."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from cluster import Connection, Database, wait_until
from integration.worker_harness import cut_connections
from psycopg.pq import TransactionStatus

from jobforge import db
from jobforge.calls.call import Call, query
from jobforge.errors import Invalid, Unavailable

BACKEND: Call[int] = query("select pg_backend_pid()", (), lambda rows: rows[0][0], is_frequent=True)
REFUSED: Call[int] = query(
    "select %s::integer", ("no number",), lambda rows: rows[0][0], is_frequent=True
)
HELD: Call[None] = query("select pg_advisory_xact_lock(1)", (), lambda _: None, is_frequent=True)


@pytest.fixture
def pool(database: Database) -> Iterator[db.Pool]:
    opened = db.Pool(database.url, size=2)
    opened.open()
    yield opened
    opened.close()


def _others(conn: Connection, condition: str = "true") -> int:
    found = conn.execute(
        "select from pg_stat_activity where datname = current_database()"
        f" and pid <> pg_backend_pid() and backend_type = 'client backend' and {condition}"
    )
    return len(found.fetchall())


def test_calls_share_one_connection_that_survives_a_refused_call(pool: db.Pool) -> None:
    backend = pool.run(BACKEND)
    with pytest.raises(Invalid):
        pool.run(REFUSED)
    assert pool.run(BACKEND) == backend
    with pool.connection() as conn:
        assert conn.info.backend_pid == backend
        assert pool.run(BACKEND) != backend


def test_an_open_transaction_does_not_reach_the_next_call(pool: db.Pool) -> None:
    with pool.connection() as conn:
        conn.execute("begin")
    with pool.connection() as conn:
        assert conn.pgconn.transaction_status == TransactionStatus.IDLE


def test_a_connection_cut_while_idle_causes_no_error(pool: db.Pool, conn: Connection) -> None:
    pool.run(BACKEND)
    cut_connections(conn)
    wait_until(lambda: _others(conn) == 0)
    assert pool.run(BACKEND)


def test_a_cut_call_fails_and_the_next_one_reconnects(pool: db.Pool, conn: Connection) -> None:
    conn.execute("select pg_advisory_lock(1)")
    with ThreadPoolExecutor() as thread:
        held = thread.submit(pool.run, HELD)
        wait_until(lambda: _others(conn, "wait_event = 'advisory'") == 1)
        cut_connections(conn)
        with pytest.raises(Unavailable):
            held.result()
    assert pool.run(BACKEND)


def test_a_waiting_call_gets_the_first_connection_that_is_returned(pool: db.Pool) -> None:
    def waiting() -> int:
        return pool._pool.get_stats().get("requests_waiting", 0)  # noqa: SLF001 - nobody else knows

    with ThreadPoolExecutor() as thread, pool.connection():
        with pool.connection() as conn:
            backend = conn.info.backend_pid
            answer = thread.submit(pool.run, BACKEND)
            wait_until(lambda: waiting() == 1)
        assert answer.result() == backend


def test_a_closed_pool_leaves_no_connection(database: Database, conn: Connection) -> None:
    pool = db.Pool(database.url, size=2)
    pool.open()
    with pool.connection():
        pool.run(BACKEND)
        pool.close()
    wait_until(lambda: _others(conn) == 0)
