"""The fast connection next to libpq: after any failure of a call, the next call works."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from cluster import Connection, Database, wait_until
from integration.worker_harness import cut_connections

from jobforge import db
from jobforge.calls.call import Call, query
from jobforge.db.fast_connection import FastConnection
from jobforge.errors import Invalid, Unavailable

pytestmark = pytest.mark.anyio

BACKEND: Call[int] = query("select pg_backend_pid()", (), lambda rows: rows[0][0])
REFUSED: Call[int] = query("select %s::integer", ("no number",), lambda rows: rows[0][0])
HELD: Call[None] = query("select pg_advisory_xact_lock(1)", (), lambda _: None)


@pytest.fixture
async def swift(database: Database) -> AsyncIterator[db.Database]:
    async with db.Database(database.url, size=2) as opened:
        yield opened


def _others(conn: Connection, condition: str = "true") -> int:
    found = conn.execute(
        "select from pg_stat_activity where datname = current_database()"
        f" and pid <> pg_backend_pid() and backend_type = 'client backend' and {condition}"
    )
    return len(found.fetchall())


async def _waiting(swift: db.Database, conn: Connection) -> "asyncio.Task[None]":
    """Return a call on the fast connection that waits for a lock of `conn`."""
    conn.execute("select pg_advisory_lock(1)")
    task = asyncio.create_task(swift.run_fast(HELD))
    waits = "wait_event = 'advisory'"
    await asyncio.to_thread(wait_until, lambda: _others(conn, waits) == 1)
    return task


async def test_calls_share_one_connection_that_survives_a_refused_call(
    swift: db.Database,
) -> None:
    backend = await swift.run_fast(BACKEND)
    with pytest.raises(Invalid):
        await swift.run_fast(REFUSED)
    assert await swift.run_fast(BACKEND) == backend


async def test_a_statement_that_the_session_has_lost_is_prepared_again(swift: db.Database) -> None:
    forget: Call[None] = query("discard all", (), lambda _: None)
    backend = await swift.run_fast(BACKEND)
    await swift.run_fast(forget)
    assert await swift.run_fast(BACKEND) == backend


async def test_a_message_larger_than_the_socket_buffer_is_sent_whole(swift: db.Database) -> None:
    size = 20_000_000
    length: Call[int] = query("select length(%s)", ("x" * size,), lambda rows: rows[0][0])
    assert await swift.run_fast(length) == size


async def test_while_the_connection_is_busy_calls_use_the_pool(
    swift: db.Database, conn: Connection
) -> None:
    wire = await swift.run_fast(BACKEND)
    waiting = await _waiting(swift, conn)
    assert await swift.run_fast(BACKEND) != wire
    conn.execute("select pg_advisory_unlock(1)")
    await waiting
    assert await swift.run_fast(BACKEND) == wire


async def test_a_connection_cut_while_idle_causes_no_error(
    swift: db.Database, conn: Connection
) -> None:
    await swift.run_fast(BACKEND)
    cut_connections(conn)
    wait_until(lambda: _others(conn) == 0)  # and the event loop has not noticed it yet
    assert await swift.run_fast(BACKEND)


async def test_a_connection_can_return_to_a_fast_connection(database: Database) -> None:
    async with db.Database(database.url, size=2) as opened:
        async with opened.connection():  # so the fast connection can only use the other one
            backends = set()
            for _ in range(2):
                wire = FastConnection(opened._pool)  # noqa: SLF001 - a wire of its own
                backends.add(await wire.run(BACKEND))
                await wire.close()
        assert len(backends) == 1


async def test_a_cut_call_fails_and_the_next_one_reconnects(
    swift: db.Database, conn: Connection
) -> None:
    waiting = await _waiting(swift, conn)
    cut_connections(conn)
    with pytest.raises(Unavailable):
        await waiting
    assert await swift.run_fast(BACKEND)


async def test_after_a_canceled_call_the_next_one_gets_its_own_result(
    swift: db.Database, conn: Connection
) -> None:
    waiting = await _waiting(swift, conn)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await swift.run_fast(BACKEND)


async def test_a_closed_database_leaves_no_connection(database: Database, conn: Connection) -> None:
    async with db.Database(database.url, size=2) as opened:
        await opened.run_fast(BACKEND)
    await asyncio.to_thread(wait_until, lambda: _others(conn) == 0)
