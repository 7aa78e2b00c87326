"""The tenant of a transaction: it applies until the end of the transaction, and no longer."""

import asyncio
from contextlib import suppress

import psycopg
import pytest
from cluster import Connect, Connection, Database, wait_until
from integration.call_setup import A_JOB, TENANT_A, TENANT_B, count_jobs

from jobforge import calls, db
from jobforge.errors import Conflict, Invalid, TenantRequired, UnknownDefinition
from jobforge.types.jobs import JobRequest

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("mail")]


async def test_a_scope_commits_all_its_calls_at_its_end(
    pool: db.Database, conn: Connection
) -> None:
    async with pool.tenant(TENANT_A) as scope:
        first = await scope.run(calls.enqueue_job(A_JOB))
        await scope.run(calls.enqueue_job(A_JOB))
        assert (await scope.run(calls.get_job(first.job_id))).job.payload == {"to": "ada"}
        assert count_jobs(conn) == 0
    assert count_jobs(conn) == 2


def test_a_scope_works_on_a_sync_connection(database: Database, conn: Connection) -> None:
    with db.connect(database.url_as("client_login")) as mine:
        with db.tenant(mine, TENANT_A):
            db.run(mine, calls.enqueue_job(A_JOB))
            assert count_jobs(conn) == 0
        assert count_jobs(conn) == 1
        with pytest.raises(TenantRequired):
            db.run(mine, calls.list_jobs())
        with pytest.raises(UnknownDefinition), db.tenant(mine, TENANT_A):
            db.run(mine, calls.enqueue_jobs([A_JOB, JobRequest("unknown")]))
        assert count_jobs(conn) == 1


async def test_a_scope_that_raises_stores_nothing(pool: db.Database, conn: Connection) -> None:
    async def enqueue_and_raise(error: Exception) -> None:
        async with pool.tenant(TENANT_A) as scope:
            await scope.run(calls.enqueue_job(A_JOB))
            raise error

    async def enqueue_and_be_refused() -> None:
        async with pool.tenant(TENANT_A) as scope:
            await scope.run(calls.enqueue_job(A_JOB))
            await scope.run(calls.enqueue_job(JobRequest("unknown")))

    with pytest.raises(RuntimeError):
        await enqueue_and_raise(RuntimeError())
    with pytest.raises(UnknownDefinition):
        await enqueue_and_be_refused()
    assert count_jobs(conn) == 0
    await pool.run(calls.enqueue_job(A_JOB).for_tenant(TENANT_A))
    assert count_jobs(conn) == 1


UNKNOWN = calls.enqueue_job(JobRequest("unknown"))
SWALLOWED = {"alone": UNKNOWN, "with a setting": UNKNOWN.with_setting("app.actor", "ada")}


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("name", SWALLOWED)
async def test_a_refusal_that_the_caller_ignores_fails_the_scope(
    name: str, more: int, pool: db.Database, conn: Connection, database: Database
) -> None:
    async def enqueue_in_scope() -> None:
        async with pool.tenant(TENANT_A) as scope:
            await scope.run(calls.enqueue_job(A_JOB))
            with suppress(UnknownDefinition):
                await scope.run(SWALLOWED[name])
            for _ in range(more):
                await scope.run(calls.enqueue_job(A_JOB))

    def enqueue_in_sync_scope() -> None:
        with db.connect(database.url_as("client_login")) as mine, db.tenant(mine, TENANT_A):
            db.run(mine, calls.enqueue_job(A_JOB))
            with suppress(UnknownDefinition):
                db.run(mine, SWALLOWED[name])
            for _ in range(more):
                db.run(mine, calls.enqueue_job(A_JOB))

    with pytest.raises(Conflict):
        await enqueue_in_scope()
    with pytest.raises(Conflict):
        enqueue_in_sync_scope()
    assert count_jobs(conn) == 0


async def test_a_scope_keeps_its_tenant(pool: db.Database) -> None:
    async with pool.tenant(TENANT_A) as scope:
        with pytest.raises(Conflict):
            await scope.run(calls.enqueue_job(A_JOB).for_tenant(TENANT_B))
        job = await scope.run(calls.enqueue_job(A_JOB))
        assert (await scope.run(calls.get_job(job.job_id))).job.tenant_id == TENANT_A


async def test_errors_of_the_callers_own_database_are_raised_unchanged(pool: db.Database) -> None:
    with pytest.raises(psycopg.OperationalError, match="of my own"):
        async with pool.tenant(TENANT_A):
            raise psycopg.OperationalError("of my own")


async def _assert_no_tenant(pool: db.Database) -> None:
    with pytest.raises(TenantRequired):
        await pool.run(calls.list_jobs())
    async with pool.connection() as conn:
        cursor = await conn.execute("select count(*) from jobforge.all_jobs")
        assert await cursor.fetchone() == (0,)


async def test_the_tenant_does_not_reach_the_next_user_of_the_connection(
    pool: db.Database,
) -> None:
    await _assert_no_tenant(pool)
    await pool.run(calls.enqueue_job(A_JOB).for_tenant(TENANT_A))
    await _assert_no_tenant(pool)
    async with pool.tenant(TENANT_A) as scope:
        await scope.run(calls.enqueue_job(A_JOB))
    await _assert_no_tenant(pool)
    with pytest.raises(Invalid):
        await pool.run(calls.list_jobs(limit=0).for_tenant(TENANT_A))
    await _assert_no_tenant(pool)
    with pytest.raises(RuntimeError):
        async with pool.tenant(TENANT_A):
            raise RuntimeError
    await _assert_no_tenant(pool)
    assert await pool.run(calls.list_jobs().for_tenant(TENANT_B)) == []


async def test_the_tenant_of_a_cancelled_call_does_not_reach_the_next_user(
    pool: db.Database, conn: Connection, connect: Connect
) -> None:
    other = connect(autocommit=False)
    key = '{"key": "k"}'
    other.execute("select jobforge.enqueue_job('mail', '{}', %s::jsonb, %s)", [key, TENANT_A])
    call = calls.enqueue_job(A_JOB._replace(key="k")).for_tenant(TENANT_A)
    waiting = asyncio.create_task(pool.run(call))
    await asyncio.to_thread(wait_until, lambda: _is_waiting_for_a_lock(conn))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await _assert_no_tenant(pool)
    other.rollback()
    assert count_jobs(conn) == 0


def _is_waiting_for_a_lock(conn: Connection) -> bool:
    waiting = conn.execute(
        "select from pg_stat_activity where usename = 'client_login' and wait_event_type = 'Lock'"
    )
    return waiting.rowcount > 0
