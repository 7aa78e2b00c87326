"""The connection next to libpq: whatever happens to a call on it, the next one is answered."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from cluster import Connection, Database, wait_until
from integration.worker_harness import cut_connections

from jobforge import db
from jobforge.calls import Call, rows
from jobforge.db.watched import FastConnection
from jobforge.errors import Invalid, Unavailable

pytestmark = pytest.mark.anyio

BACKEND: Call[int] = Call("select pg_backend_pid()", (), rows.value)
REFUSED: Call[int] = Call("select %s::integer", ("no number",), rows.value)
HELD: Call[None] = Call("select pg_advisory_xact_lock(1)", (), rows.nothing)


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
    """A call on the wire that cannot go on until `conn` lets go of its lock."""
    conn.execute("select pg_advisory_lock(1)")
    task = asyncio.create_task(swift.run_fast(HELD))
    waits = "wait_event = 'advisory'"
    await asyncio.to_thread(wait_until, lambda: _others(conn, waits) == 1)
    return task


async def test_calls_use_one_connection_and_a_refused_one_does_not_cost_it(
    swift: db.Database,
) -> None:
    backend = await swift.run_fast(BACKEND)
    with pytest.raises(Invalid):
        await swift.run_fast(REFUSED)
    assert await swift.run_fast(BACKEND) == backend


async def test_what_a_session_has_forgotten_is_prepared_again(swift: db.Database) -> None:
    forget: Call[None] = Call("discard all", (), lambda _: None)
    backend = await swift.run_fast(BACKEND)
    await swift.run_fast(forget)
    assert await swift.run_fast(BACKEND) == backend


async def test_what_no_socket_takes_at_once_is_sent_whole(swift: db.Database) -> None:
    size = 20_000_000
    length: Call[int] = Call("select length(%s)", ("x" * size,), rows.value)
    assert await swift.run_fast(length) == size


async def test_while_the_wire_is_taken_calls_go_through_the_pool(
    swift: db.Database, conn: Connection
) -> None:
    wire = await swift.run_fast(BACKEND)
    waiting = await _waiting(swift, conn)
    assert await swift.run_fast(BACKEND) != wire
    conn.execute("select pg_advisory_unlock(1)")
    await waiting
    assert await swift.run_fast(BACKEND) == wire


async def test_a_connection_that_was_cut_while_idle_is_not_noticed(
    swift: db.Database, conn: Connection
) -> None:
    await swift.run_fast(BACKEND)
    cut_connections(conn)
    wait_until(lambda: _others(conn) == 0)  # and our loop has not looked yet
    assert await swift.run_fast(BACKEND)


async def test_a_connection_may_come_back_to_a_wire(database: Database) -> None:
    async with db.Database(database.url, size=2) as opened:
        async with opened.connection():  # so the other one is all that a wire can get
            backends = set()
            for _ in range(2):
                wire = FastConnection(opened._pool)  # noqa: SLF001 - a wire of its own
                backends.add(await wire.run(BACKEND))
                await wire.close()
        assert len(backends) == 1


async def test_a_call_that_was_cut_fails_and_the_next_connects_again(
    swift: db.Database, conn: Connection
) -> None:
    waiting = await _waiting(swift, conn)
    cut_connections(conn)
    with pytest.raises(Unavailable):
        await waiting
    assert await swift.run_fast(BACKEND)


async def test_who_gives_up_leaves_the_next_an_answer_of_its_own(
    swift: db.Database, conn: Connection
) -> None:
    waiting = await _waiting(swift, conn)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await swift.run_fast(BACKEND)


async def test_a_database_that_is_closed_leaves_no_connection(
    database: Database, conn: Connection
) -> None:
    async with db.Database(database.url, size=2) as opened:
        await opened.run_fast(BACKEND)
    await asyncio.to_thread(wait_until, lambda: _others(conn) == 0)
