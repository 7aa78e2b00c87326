"""Wakeups by notifications, and polling without them."""

import pytest
from cluster import Connection, Database
from integration.worker_harness import WorkerHarness, allow_connections, eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
def harness(database: Database, conn: Connection) -> WorkerHarness:
    created = WorkerHarness(database, conn)

    @created.app.job(isolation="inline")
    async def work() -> None:
        return None

    created.register()
    return created


async def test_a_notification_wakes_a_worker_before_its_next_poll(
    harness: WorkerHarness, conn: Connection
) -> None:
    async with harness.running_worker(poll_s=3600):
        for _ in range(3):
            await eventually(lambda: _is_resting(conn))
            await harness.wait_for_state(harness.enqueue("work"))


async def test_a_worker_that_cannot_listen_finds_jobs_by_polling(
    harness: WorkerHarness, conn: Connection
) -> None:
    async with harness.running_worker(listens=False, poll_s=0.5):
        await eventually(lambda: _is_resting(conn))
        await harness.wait_for_state(harness.enqueue("work"))


async def test_a_worker_listens_again_after_its_connection_was_cut(
    harness: WorkerHarness, conn: Connection
) -> None:
    async with harness.running_worker(poll_s=3600):
        await eventually(lambda: _listeners(conn) != set())
        before = _listeners(conn)
        _cut(conn, before)
        await eventually(lambda: bool(_listeners(conn) - before))
        await eventually(lambda: _is_resting(conn))
        await harness.wait_for_state(harness.enqueue("work"))


async def test_a_job_enqueued_without_listeners_is_found_before_the_next_poll(
    harness: WorkerHarness, conn: Connection
) -> None:
    async with harness.running_worker(poll_s=3600):
        await eventually(lambda: _listeners(conn) != set() and _is_resting(conn))
        allow_connections(conn, are_allowed=False)
        _cut(conn, _listeners(conn))
        await eventually(lambda: _listeners(conn) == set())
        job_id = harness.enqueue("work")
        allow_connections(conn, are_allowed=True)
        await harness.wait_for_state(job_id)


def _is_resting(conn: Connection) -> bool:
    """Return whether the last claim was longer ago than any pause except that of a poll."""
    row = conn.execute(
        """
        select count(*) as n from pg_stat_activity
         where datname = current_database() and query like '%claim_jobs%' and state = 'idle'
           and pid <> pg_backend_pid() and state_change < clock_timestamp() - interval '0.3 s'
        """
    ).fetchone()
    return bool(row and row["n"])


def _cut(conn: Connection, backends: set[int]) -> None:
    conn.execute("select pg_terminate_backend(pid) from unnest(%s) as pid", [list(backends)])


def _listeners(conn: Connection) -> set[int]:
    rows = conn.execute(
        """
        select pid from pg_stat_activity
         where datname = current_database() and query ilike 'listen%'
        """
    )
    return {row["pid"] for row in rows}
