"""Fixtures for a database that all cases of a module share, where a clone for each is too slow."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from cluster import Clock, Connection, connect_to, fresh_database

from jobforge.embedded import PostgresServer


@pytest.fixture(scope="module")
def shared_conn(server: PostgresServer) -> Iterator[Connection]:
    """The superuser's connection; cases use separate tenants, queues and keys."""
    with fresh_database(server) as database, closing(connect_to(database.url)) as conn:
        yield conn


@pytest.fixture(scope="module")
def shared_clock(shared_conn: Connection) -> Clock:
    """Moves `jobforge_private.now()` in the shared database, for all following cases too."""
    return Clock(shared_conn)
