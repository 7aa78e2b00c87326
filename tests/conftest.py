"""Fixtures for all tests; cluster.py has the server and the databases behind them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cluster import (
    BINARIES,
    Clock,
    Cluster,
    Connect,
    Connection,
    Database,
    connect_to,
    fresh_database,
    make_folder,
)

from jobforge.embedded import Embedded, PostgresServer

pytest_plugins = ["attacks"]

CLUSTER = pytest.StashKey[Cluster]()


def pytest_configure(config: pytest.Config) -> None:
    _set_up(config)
    # The user who runs the tests may have settings of their own.
    os.environ["XDG_CONFIG_HOME"] = str(config.stash[CLUSTER].folder / "config")


def _set_up(config: pytest.Config) -> None:
    worker_input: dict[str, str] | None = getattr(config, "workerinput", None)
    if worker_input is not None:
        config.stash[CLUSTER] = Cluster(Path(worker_input["cluster"]))
        return
    config.stash[CLUSTER] = cluster = Cluster.create()
    stack = ExitStack()
    stack.enter_context(cluster.watched())
    config.add_cleanup(stack.close)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["cluster"] = str(node.config.stash[CLUSTER].folder)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can enter, unlike tmp_path; servers in it are stopped at the
    end."""
    created = make_folder("jobforge-folder-")
    yield created
    for lock in created.rglob("pg.lock"):
        Embedded(lock.with_name("pg"), bin_dir=BINARIES).stop()
    shutil.rmtree(created)


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> PostgresServer:
    """The only Postgres server of this run."""
    return request.config.stash[CLUSTER].start()


@pytest.fixture
def database(server: PostgresServer) -> Iterator[Database]:
    """A separate migrated database for the test."""
    with fresh_database(server) as fresh:
        yield fresh


@pytest.fixture
def connect(database: Database) -> Iterator[Connect]:
    """Opens connections to the test's database: `connect()` or `connect("client_login")`."""
    with ExitStack() as opened:

        def _connect(role: str | None = None, *, autocommit: bool = True) -> Connection:
            url = database.url_as(role) if role else database.url
            return opened.enter_context(connect_to(url, autocommit=autocommit))

        yield _connect


@pytest.fixture
def conn(connect: Connect) -> Connection:
    """The migrating superuser's connection, autocommit, rows as dicts."""
    return connect()


@pytest.fixture
def clock(conn: Connection) -> Clock:
    """Moves `jobforge_private.now()` in the test's database."""
    return Clock(conn)
