"""A database for all cases of a module, where a clone for each would cost more than it proves."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from cluster import Clock, Connection, connect_to, fresh_database

from jobforge.embedded import PostgresServer


@pytest.fixture(scope="module")
def shared_conn(server: PostgresServer) -> Iterator[Connection]:
    """The superuser's connection; cases keep apart by tenants, queues and keys of their own."""
    with fresh_database(server) as database, closing(connect_to(database.url)) as conn:
        yield conn


@pytest.fixture(scope="module")
def shared_clock(shared_conn: Connection) -> Clock:
    """Moves `jobforge_private.now()` in the shared database, for all the cases that come after."""
    return Clock(shared_conn)
