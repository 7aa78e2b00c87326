"""Fixtures for tests of the HTTP API: one server for each module."""

from collections.abc import Iterator

import pytest
from api.api_server import ApiServer, open_api_server
from cluster import fresh_database

from jobforge.embedded import PostgresServer


@pytest.fixture(scope="module")
def api(server: PostgresServer) -> Iterator[ApiServer]:
    """Return a server without rate limits."""
    with fresh_database(server) as database, open_api_server(database) as opened:
        yield opened
