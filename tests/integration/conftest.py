"""Fixtures for tests of jobforge.calls."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TypeVar

import pytest
from cluster import Connection, Database
from integration.call_setup import RunCall

from jobforge import calls, db
from jobforge.calls import Call

T = TypeVar("T")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def mail(conn: Connection) -> None:
    """Define `mail`, so that jobs can be enqueued."""
    conn.execute("select jobforge.put_definition('mail', 1)")


@pytest.fixture
async def pool(database: Database, mail: None) -> AsyncIterator[db.Database]:  # noqa: ARG001
    """Return a pool with one connection, so that leaked session state is visible."""
    async with db.Database(database.url_as("client_login"), size=1) as opened:
        yield opened


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, database: Database) -> Iterator[RunCall]:
    """Return a function that runs a call as an operator, with a registered definition."""
    url = database.url_as("admin_login")
    if request.param == "sync":
        with db.connect(url) as conn:

            def run_sync(call: Call[T]) -> T:
                return db.run(conn, call)

            run_sync(calls.put_definition("mail", 1))
            yield run_sync
        return
    with asyncio.Runner() as runner:
        pool = db.Database(url, size=2)
        runner.run(pool.open())

        def run_async(call: Call[T]) -> T:
            return runner.run(pool.run(call))

        run_async(calls.put_definition("mail", 1))
        yield run_async
        runner.run(pool.close())
