"""The shipped schema, by every way to install it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from cluster import BINARIES, Connect, Connection, Database, connect_to, fresh_database

from jobforge.db.migrate import check, migrate
from jobforge.db.schema_files import SQL, render_sql, write_supabase
from jobforge.embedded import Embedded, PostgresServer
from jobforge.embedded.binaries import OLDEST_MAJOR
from jobforge.errors import MigrationError
from jobforge.testing.cluster import SETTINGS

POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture
def blank(server: PostgresServer) -> Iterator[Database]:
    with fresh_database(server, template="template1") as fresh:
        yield fresh


@pytest.fixture
def new_cluster(folder: Path) -> PostgresServer:
    """Run a server without the roles of JobForge."""
    embedded = Embedded(folder / "pg", bin_dir=BINARIES, settings=SETTINGS)
    embedded.start()
    running = embedded.running()
    assert running is not None
    return running


def _records(database: Database) -> list[dict[str, object]]:
    with connect_to(database.url) as conn:
        return conn.execute("select name, checksum from jobforge.migrations order by 1").fetchall()


def _make_login(server: PostgresServer, name: str, options: str) -> Connection:
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


def test_new_functions_are_installed_without_waiting_for_a_table(
    conn: Connection, connect: Connect, tmp_path: Path
) -> None:
    reader = connect(autocommit=False)
    for table in reader.execute(
        "select oid::regclass::text as name from pg_class"
        " where relnamespace = 'jobforge'::regnamespace and relkind in ('r', 'p')"
    ).fetchall():
        reader.execute(f"lock table only {table['name']} in access share mode".encode())
    assert "access.sql" in migrate(conn, root=_next_release(tmp_path), lock_timeout="10ms")


def test_an_upgrade_restores_a_weakened_policy(conn: Connection, tmp_path: Path) -> None:
    shown = "select * from pg_policies where schemaname = 'jobforge' order by tablename, policyname"
    before = conn.execute(shown).fetchall()
    conn.execute("alter policy client_reads on jobforge.jobs using (true)")
    conn.execute("alter table jobforge.attempts no force row level security")
    migrate(conn, root=_next_release(tmp_path))
    assert conn.execute(shown).fetchall() == before
    forced = "select relforcerowsecurity from pg_class where oid = 'jobforge.attempts'::regclass"
    assert conn.execute(forced).fetchone() == {"relforcerowsecurity": True}


def _next_release(folder: Path) -> Path:
    """Copy the schema, with one changed function."""
    root = folder / "next"
    shutil.copytree(SQL, root)
    with (root / "functions" / "foundation" / "now.sql").open("a", encoding="utf-8") as function:
        function.write("-- of the next release\n")
    return root


def test_no_superuser_is_needed(new_cluster: PostgresServer) -> None:
    with _make_login(new_cluster, "migrator", "createrole") as conn:
        migrate(conn)
        check(conn)


def test_no_superuser_is_needed_for_the_psql_file(new_cluster: PostgresServer) -> None:
    with _make_login(new_cluster, "migrator", "createrole") as conn:
        conn.execute(render_sql().encode())
        check(conn)


@pytest.mark.skipif(not POSTGRES_15.exists(), reason="Debian's Postgres 15 is not installed")
def test_the_oldest_supported_postgres_accepts_the_schema(folder: Path) -> None:
    embedded = Embedded(folder / "pg", bin_dir=POSTGRES_15, settings=SETTINGS)
    with connect_to(embedded.start()) as conn:
        assert conn.info.server_version // 10000 == OLDEST_MAJOR
        migrate(conn)
        check(conn)
    embedded.stop()


def test_an_error_names_the_missing_right_to_create_roles(new_cluster: PostgresServer) -> None:
    with (
        _make_login(new_cluster, "nobody_special", "") as conn,
        pytest.raises(MigrationError, match=r"roles\.sql.*nobody_special") as caught,
    ):
        migrate(conn)
    assert "CREATEROLE" in str(caught.value.hint)


def test_an_error_names_the_missing_membership_in_the_owner_role(database: Database) -> None:
    with connect_to(database.url_as("client_login")) as conn:
        with pytest.raises(MigrationError) as caught:
            check(conn)
        assert "jobforge_owner" in str(caught.value.hint)
