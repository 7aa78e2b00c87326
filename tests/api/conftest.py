"""Fixtures for tests of the HTTP API: one server for each module."""

from collections.abc import Iterator

import pytest
from api.api_server import House, house
from cluster import fresh_database

from jobforge.embedded import PostgresServer


@pytest.fixture(scope="module")
def api(server: PostgresServer) -> Iterator[House]:
    """A server without limits on its rate."""
    with fresh_database(server) as database, house(database) as opened:
        yield opened
