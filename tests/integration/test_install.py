"""The schema that is shipped, by every way to install it."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from cluster import BINARIES, Connection, Database, connect_to, fresh_database

from jobforge.binaries import OLDEST_MAJOR
from jobforge.embedded import Embedded, Server
from jobforge.errors import MigrationError
from jobforge.migrate import check, migrate
from jobforge.schema import render_sql, write_supabase
from jobforge.testing.cluster import SETTINGS

POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture
def blank(server: Server) -> Iterator[Database]:
    with fresh_database(server, template="template1") as fresh:
        yield fresh


@pytest.fixture
def new_cluster(folder: Path) -> Server:
    """A server in which nobody has made the roles of JobForge yet."""
    embedded = Embedded(folder / "pg", bin_dir=BINARIES, settings=SETTINGS)
    embedded.start()
    running = embedded.running()
    assert running is not None
    return running


def _records(database: Database) -> list[dict[str, object]]:
    with connect_to(database.url) as conn:
        return conn.execute("select name, checksum from jobforge.migrations order by 1").fetchall()


def _make_login(server: Server, name: str, options: str) -> Connection:
    with connect_to(server.url()) as admin:
        admin.execute(f"create role {name} login {options}".encode())
        admin.execute(f"create database {name} owner {name}".encode())
    return connect_to(server.url(name, user=name))


def test_psql_and_migrate_install_the_same_schema(
    database: Database, blank: Database, tmp_path: Path
) -> None:
    (tmp_path / "jobforge.sql").write_text(render_sql())
    blank.run_file(tmp_path / "jobforge.sql")
    assert blank.dump() == database.dump()
    assert _records(blank) == _records(database)
    with psycopg.connect(blank.url, autocommit=True) as conn:
        assert migrate(conn) == []


def test_supabase_and_migrate_install_the_same_schema(
    database: Database, blank: Database, tmp_path: Path
) -> None:
    for path in write_supabase(tmp_path):
        blank.run_file(path)
    assert blank.dump() == database.dump()
    assert _records(blank) == _records(database)


def test_no_superuser_is_needed(new_cluster: Server) -> None:
    with _make_login(new_cluster, "migrator", "createrole") as conn:
        migrate(conn)
        check(conn)


def test_no_superuser_is_needed_for_the_file_for_psql(new_cluster: Server) -> None:
    with _make_login(new_cluster, "migrator", "createrole") as conn:
        conn.execute(render_sql().encode())
        check(conn)


@pytest.mark.skipif(not POSTGRES_15.exists(), reason="Debian's Postgres 15 is not installed")
def test_the_oldest_supported_postgres_takes_the_schema(folder: Path) -> None:
    embedded = Embedded(folder / "pg", bin_dir=POSTGRES_15, settings=SETTINGS)
    with connect_to(embedded.start()) as conn:
        assert conn.info.server_version // 10000 == OLDEST_MAJOR
        migrate(conn)
        check(conn)
    embedded.stop()


def test_a_user_who_may_not_create_roles_is_told_so(new_cluster: Server) -> None:
    with (
        _make_login(new_cluster, "nobody_special", "") as conn,
        pytest.raises(MigrationError, match=r"roles\.sql.*nobody_special") as caught,
    ):
        migrate(conn)
    assert "CREATEROLE" in str(caught.value.hint)


def test_a_user_without_the_schema_is_told_what_is_missing(database: Database) -> None:
    with connect_to(database.url_as("client_login")) as conn:
        with pytest.raises(MigrationError) as caught:
            check(conn)
        assert "jobforge_owner" in str(caught.value.hint)
