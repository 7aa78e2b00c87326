"""Connections: pools, timeouts, round trips, notifications, and inspection of the server."""

import itertools
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from cluster import Connection, Database, wait_until
from integration.call_setup import A_JOB, TENANT_A, WORKER, count_jobs
from psycopg.pq import Trace
from psycopg.rows import dict_row

from jobforge import calls, db
from jobforge.calls.call import Call, query
from jobforge.errors import ConfigError, JobForgeError
from jobforge.types.jobs import EnqueueStatus, JobRequest

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("mail")]


def test_a_job_is_enqueued_in_the_applications_own_transaction(
    database: Database, conn: Connection
) -> None:
    url = database.url_as("service_login")
    with psycopg.connect(url, row_factory=dict_row) as application:
        call = calls.enqueue_job(A_JOB, tenant_id=TENANT_A)
        assert db.run(application, call).status is EnqueueStatus.CREATED
        setting = application.execute("select current_setting('app.tenant_id', true) as it")
        assert setting.fetchone() in ({"it": None}, {"it": ""})
        application.rollback()
        assert count_jobs(conn) == 0
        db.run(application, call)
        application.commit()
        assert count_jobs(conn) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="libpq traces on Linux only")
@pytest.mark.parametrize("login", ["client_login", "service_login"])
async def test_a_single_enqueue_is_one_round_trip(login: str, database: Database) -> None:
    by_setting = calls.enqueue_job(A_JOB).for_tenant(TENANT_A)
    by_argument = calls.enqueue_job(A_JOB, tenant_id=TENANT_A)
    call = by_setting if login == "client_login" else by_argument
    async with db.Database(database.url_as(login), size=1) as pool:
        async with pool.connection() as conn:
            the_only_connection = conn
        assert await _round_trips(the_only_connection, db.arun(the_only_connection, call)) == 1
        await pool.run(call)  # now the statement may be prepared
        assert await _round_trips(the_only_connection, pool.run(call)) == 1


async def test_a_statement_that_the_session_has_lost_is_prepared_again(
    database: Database, conn: Connection
) -> None:
    url, call = database.url_as("service_login"), calls.enqueue_job(A_JOB, tenant_id=TENANT_A)
    async with db.Database(url, size=1) as pool:
        await pool.run(call)
        async with pool.connection() as mine:
            await mine.execute("discard all")
        await pool.run(call)
    with _open(url) as sync:
        sync.run(call)
        with sync.connection() as own:
            own.execute("discard all")
        sync.run(call)
    assert count_jobs(conn) == 4


REFUSED = {
    "an unknown definition": JobRequest("none"),
    "a wrong option": JobRequest("mail", priority=40_000),
    "a text with a NUL": JobRequest("mail\0"),
    "half of a character": JobRequest("mail\ud800"),
}


async def test_a_prepared_call_raises_like_any_other(database: Database) -> None:
    url = database.url_as("service_login")
    async with db.Database(url, size=1) as pool:
        with _open(url) as sync, db.connect(url) as own:
            for name, request in REFUSED.items():
                call = calls.enqueue_job(request, tenant_id=TENANT_A)
                with pytest.raises(JobForgeError) as expected:
                    db.run(own, call)
                with pytest.raises(type(expected.value)) as refused:
                    sync.run(call)
                with pytest.raises(type(expected.value)) as arefused:
                    await pool.run(call)
                assert refused.value.detail == arefused.value.detail == expected.value.detail, name


@contextmanager
def _open(url: str) -> Iterator[db.Pool]:
    pool = db.Pool(url, size=1)
    pool.open()
    yield pool
    pool.close()


@pytest.mark.skipif(sys.platform != "linux", reason="libpq traces on Linux only")
def test_after_an_interrupted_call_the_next_call_works(
    database: Database, conn: Connection
) -> None:
    held: Call[None] = query(
        "select pg_advisory_xact_lock(7)", (), lambda _: None, is_frequent=True
    )
    size = 20_000_000
    long: Call[int] = query(
        "select length(%s)", ("x" * size,), lambda rows: rows[0][0], is_frequent=True
    )
    pool = db.Pool(database.url, size=1)
    pool.open()
    conn.execute("select pg_advisory_lock(7)")
    before = signal.signal(signal.SIGUSR1, _interrupt)
    asking = threading.get_ident()

    def interrupt() -> None:
        waits = "select from pg_stat_activity where wait_event = 'advisory'"
        wait_until(lambda: conn.execute(waits).fetchone() is not None)
        signal.pthread_kill(asking, signal.SIGUSR1)

    try:
        with ThreadPoolExecutor() as threads:
            threads.submit(interrupt)
            with pytest.raises(Interrupted):
                pool.run(held)
        assert pool.run(long) == size
    finally:
        signal.signal(signal.SIGUSR1, before)
        pool.close()


class Interrupted(BaseException):
    """An interrupt like KeyboardInterrupt."""


def _interrupt(*_: object) -> None:
    raise Interrupted


async def test_a_scope_costs_one_more_round_trip_than_its_calls(pool: db.Database) -> None:
    async def enqueue_twice() -> None:
        async with pool.tenant(TENANT_A) as scope:
            await scope.run(calls.enqueue_job(A_JOB))
            await scope.run(calls.enqueue_job(A_JOB))

    async with pool.connection() as conn:
        the_only_connection = conn
    assert await _round_trips(the_only_connection, enqueue_twice()) == 3


async def _round_trips(conn: db.AsyncConnection, work: Any) -> int:
    with tempfile.TemporaryFile("w+") as trace:
        conn.pgconn.trace(trace.fileno())
        conn.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        await work
        conn.pgconn.untrace()
        os.fsync(trace.fileno())
        trace.seek(0)
        senders = [line.split("\t")[0] for line in trace if line.strip()]
    # F marks a message to the server, B one from the server.
    return sum(sender == "F" for sender, _ in itertools.groupby(senders))


async def test_a_notification_names_its_channel(pool: db.Database) -> None:
    async with pool.listen("jobforge:default", "jobforge:other") as channels:
        await pool.run(calls.enqueue_job(A_JOB._replace(queue="other")).for_tenant(TENANT_A))
        assert await anext(channels) == "jobforge:other"


async def test_listening_through_a_pooler_needs_a_direct_url(
    database: Database,
) -> None:
    async with db.Database(database.url, behind_pooler=True) as pool:
        with pytest.raises(ConfigError):
            async with pool.listen("jobforge:default"):
                pass
    async with (
        db.Database(database.url, behind_pooler=True, listen_url=database.url) as pool,
        pool.listen("jobforge:default") as channels,
    ):
        await pool.run(calls.enqueue_job(A_JOB, tenant_id=TENANT_A))
        assert await anext(channels) == "jobforge:default"


async def test_an_inspection_returns_the_rights_of_the_login_and_the_settings_of_the_server(
    database: Database,
) -> None:
    async with db.Database(database.url) as pool:
        owner = await pool.inspect()
    async with db.Database(database.url_as("worker_login")) as pool:
        worker = await pool.inspect()
    assert (owner.is_superuser, owner.bypasses_rls, owner.owns_tables) == (True, True, True)
    assert (worker.is_superuser, worker.bypasses_rls, worker.owns_tables) == (False, False, False)
    assert (worker.user, worker.is_service, worker.has_schema) == ("worker_login", False, True)
    assert worker.version >= 150000
    assert (worker.fsync, worker.full_page_writes, worker.synchronous_commit) == (
        False,
        False,
        "off",
    )
    assert (worker.is_replica, worker.is_behind_pooler) == (False, False)
    assert worker.default_isolation == "read committed"
    assert worker.statement_timeout_ms == 30_000
    assert (worker.lock_timeout_ms, worker.idle_in_transaction_timeout_ms) == (2_000, 10_000)


async def test_settings_of_the_url_override_the_defaults(database: Database) -> None:
    url = f"{database.url}&application_name=mine&options=-c%20lock_timeout%3D7s"
    with db.connect(url) as conn:
        shown = conn.execute(
            "select current_setting('lock_timeout'), application_name from "
            "pg_stat_activity where pid = pg_backend_pid()"
        ).fetchone()
    assert shown == ("7s", "mine")


async def test_a_call_can_commit_asynchronously(pool: db.Database) -> None:
    show: Call[str] = query(
        "select current_setting('synchronous_commit')", (), lambda rows: str(rows[0][0])
    )
    assert await pool.run(show.with_setting("synchronous_commit", "local")) == "local"
    assert await pool.run(show) != "local"


def test_times_have_a_zone(database: Database) -> None:
    with db.connect(database.url_as("admin_login")) as mine:
        before = datetime.now(UTC)
        db.run(mine, calls.enqueue_job(A_JOB).for_tenant(TENANT_A))
        [job] = db.run(mine, calls.claim_jobs(WORKER, {"default": 1}))
    assert before <= job.started_at <= datetime.now(UTC)
