"""The migration runner, on a small schema of its own."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cluster import Database, connect_to, fresh_database, wait_until

from jobforge.db.connection import Connection
from jobforge.db.migrate import check, migrate
from jobforge.db.migration_plan import FileState, plan, status
from jobforge.db.schema_files import ADVISORY_LOCK, SQL, render_sql, write_supabase
from jobforge.embedded import PostgresServer
from jobforge.errors import MigrationError

FILES = {
    "migrations/0001_things.sql": """
        -- Things.
        create table jobforge.things (id int primary key, name text default $$it's$$);
        create index things_by_name on jobforge.things (name);
    """,
    "functions/a_first.sql": """
        create or replace function jobforge.first() returns bigint language sql
        as $$ select jobforge.second() $$;
    """,
    "functions/by_count/second.sql": """
        create or replace function jobforge.second() returns bigint language sql
        as $$ select count(*) from jobforge.things $$;
    """,
    "functions/installation/access_faults.sql": """
        create or replace function jobforge.access_faults() returns table (fault text) language sql
        as $$ select 'nothing' where false $$;
    """,
    "access.sql": """
        set local role jobforge_owner;
        alter table jobforge.things set (fillfactor = 90);
        grant select on jobforge.things to jobforge_client;
        reset role;
    """,
}
ALL = ["roles.sql", "schema.sql", *FILES]

MIGRATE = """
import pathlib, sys, psycopg
from jobforge.db.migrate import migrate
with psycopg.connect(sys.argv[1], autocommit=True) as conn:
    print(len(migrate(conn, root=pathlib.Path(sys.argv[2]))))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a folder like the package's sql/ that the test can change."""
    folder = tmp_path / "sql"
    for name, text in FILES.items():
        _write(folder, name, text)
    for name in ("roles.sql", "schema.sql"):
        _write(folder, name, (SQL / name).read_text())
    _write(folder, "functions/by_count/00_README.sql", "not SQL: nobody applies this")
    return folder


@pytest.fixture
def blank(server: PostgresServer) -> Iterator[Database]:
    """Create a database without JobForge."""
    with fresh_database(server, template="template1") as fresh:
        yield fresh


@pytest.fixture
def empty(blank: Database) -> Iterator[Connection]:
    with psycopg.connect(blank.url, autocommit=True) as conn:
        yield conn


def _write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _value(conn: Connection, query: str) -> Any:
    row = conn.execute(query.encode()).fetchone()
    return row[0] if row else None


def _records(database: Database) -> list[Any]:
    with connect_to(database.url) as conn:
        return conn.execute("select name, checksum from jobforge.migrations order by 1").fetchall()


def test_a_new_database_gets_every_file_in_order_once(empty: Connection, root: Path) -> None:
    assert migrate(empty, root=root) == ALL
    assert _value(empty, "select jobforge.first()") == 0
    assert migrate(empty, root=root) == []


def test_the_description_file_of_a_folder_is_not_applied(empty: Connection, root: Path) -> None:
    migrate(empty, root=root)
    _write(root, "functions/by_count/00_README.sql", "changed")
    assert plan(empty, root) == []
    assert all("README" not in file.name for file in status(empty, root))


def test_a_dry_run_lists_the_files_and_changes_nothing(empty: Connection, root: Path) -> None:
    assert [script.name for script in plan(empty, root)] == ALL
    assert _value(empty, "select to_regclass('jobforge.migrations')") is None


def test_tables_and_functions_are_created_by_the_owner_role(empty: Connection, root: Path) -> None:
    migrate(empty, root=root)
    table = "select relowner::regrole::text from pg_class where relname = 'things'"
    function = "select proowner::regrole::text from pg_proc where proname = 'first'"
    assert (_value(empty, table), _value(empty, function)) == ("jobforge_owner", "jobforge_owner")


def test_a_changed_function_reapplies_all_functions_and_grants(
    empty: Connection, root: Path
) -> None:
    migrate(empty, root=root)
    text = FILES["functions/by_count/second.sql"].replace("count(*)", "count(*) + 41")
    _write(root, "functions/by_count/second.sql", text)
    assert migrate(empty, root=root) == [
        "roles.sql",
        "schema.sql",
        "functions/a_first.sql",
        "functions/by_count/second.sql",
        "functions/installation/access_faults.sql",
        "access.sql",
    ]
    assert _value(empty, "select jobforge.first()") == 41


def test_a_new_migration_runs_without_the_old_ones(empty: Connection, root: Path) -> None:
    migrate(empty, root=root)
    _write(root, "migrations/0002_more.sql", "create table jobforge.more (id int);")
    assert migrate(empty, root=root) == [
        "roles.sql",
        "schema.sql",
        "migrations/0002_more.sql",
        "access.sql",
    ]


def test_the_record_of_a_function_without_a_file_is_deleted(empty: Connection, root: Path) -> None:
    migrate(empty, root=root)
    (root / "functions/a_first.sql").unlink()
    _write(root, "functions/third.sql", "select 3;")
    migrate(empty, root=root)
    assert _value(empty, "select count(*) from jobforge.migrations where name like '%first%'") == 0
    assert migrate(empty, root=root) == []


def test_an_edited_migration_is_refused(empty: Connection, root: Path) -> None:
    migrate(empty, root=root)
    _write(root, "migrations/0001_things.sql", "create table jobforge.other (id int);")
    _write(root, "functions/by_count/second.sql", "select 'changed too';")
    with pytest.raises(MigrationError, match=r"changed after they were applied.*0001_things"):
        migrate(empty, root=root)
    assert _value(empty, "select jobforge.first()") == 0


def test_an_older_release_does_not_change_a_newer_database(empty: Connection, root: Path) -> None:
    _write(root, "migrations/0002_more.sql", "create table jobforge.more (id int);")
    migrate(empty, root=root)
    (root / "migrations/0002_more.sql").unlink()
    _write(root, "functions/by_count/second.sql", "select 'an older text';")
    with pytest.raises(MigrationError, match=r"newer than this release.*0002_more"):
        migrate(empty, root=root)


def test_a_failed_file_changes_nothing_and_is_reported_with_its_line(
    empty: Connection, root: Path
) -> None:
    _write(root, "access.sql", "select 1;\n\nselect no_such_column;\n")
    with pytest.raises(MigrationError, match=r"access\.sql, line 3: .*no_such_column"):
        migrate(empty, root=root)
    assert _value(empty, "select to_regnamespace('jobforge')") is None


def test_of_two_concurrent_processes_one_migrates_and_the_other_has_nothing_to_do(
    blank: Database, empty: Connection, root: Path
) -> None:
    empty.execute("select pg_advisory_lock(%s)", [ADVISORY_LOCK])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATE, blank.url, str(root)],
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": ":".join(sys.path)},
        )
        for _ in range(2)
    ]
    waiting = """
        select count(*) = 2 from pg_locks
        where locktype = 'advisory' and not granted
          and database = (select oid from pg_database where datname = current_database())
    """
    wait_until(lambda: bool(_value(empty, waiting)))
    empty.execute("select pg_advisory_unlock(%s)", [ADVISORY_LOCK])
    answers = sorted(process.communicate(timeout=60)[0].strip() for process in processes)
    assert answers == ["0", str(len(ALL))]


def test_a_table_in_use_is_waited_for_up_to_the_lock_timeout(
    blank: Database, empty: Connection, root: Path
) -> None:
    migrate(empty, root=root)
    _write(root, "migrations/0002_more.sql", "alter table jobforge.things add size int;")
    with psycopg.connect(blank.url) as user:
        user.execute("select * from jobforge.things")
        with pytest.raises(MigrationError, match="0002_more") as caught:
            migrate(empty, root=root, lock_timeout="10ms")
    assert "--lock-timeout" in str(caught.value.hint)
    assert "migrations/0002_more.sql" in migrate(empty, root=root)


def test_a_connection_inside_a_transaction_is_refused(blank: Database, root: Path) -> None:
    with psycopg.connect(blank.url) as conn:
        conn.execute("select 1")
        with pytest.raises(MigrationError, match="must not be in a transaction"):
            migrate(conn, root=root)


def test_the_callers_settings_are_unchanged(empty: Connection, root: Path) -> None:
    shown = "select concat_ws(' ', current_user, current_setting('search_path'))"
    before = _value(empty, shown)
    migrate(empty, root=root)
    assert _value(empty, shown) == before


def test_status_lists_each_file_separately(empty: Connection, root: Path) -> None:
    migrate(empty, root=root)
    _write(root, "migrations/0001_things.sql", "select 'edited';")
    _write(root, "functions/by_count/second.sql", "select 'changed';")
    _write(root, "functions/third.sql", "select 'new';")
    (root / "functions/a_first.sql").unlink()
    assert {file.name: file.state for file in status(empty, root)} == {
        "roles.sql": FileState.APPLIED,
        "schema.sql": FileState.APPLIED,
        "functions/installation/access_faults.sql": FileState.APPLIED,
        "migrations/0001_things.sql": FileState.TAMPERED,
        "functions/by_count/second.sql": FileState.CHANGED,
        "functions/third.sql": FileState.DUE,
        "access.sql": FileState.APPLIED,
        "functions/a_first.sql": FileState.UNKNOWN,
    }


def test_check_fails_until_the_schema_is_up_to_date(empty: Connection, root: Path) -> None:
    with pytest.raises(MigrationError, match="Migrations are due"):
        check(empty, root)
    migrate(empty, root=root)
    check(empty, root)


def test_the_psql_file_gives_the_same_schema_and_can_be_run_again(
    server: PostgresServer, blank: Database, empty: Connection, root: Path, tmp_path: Path
) -> None:
    migrate(empty, root=root)
    rendered = tmp_path / "jobforge.sql"
    rendered.write_text(render_sql(root))
    with fresh_database(server, template="template1") as by_psql:
        by_psql.run_file(rendered)
        by_psql.run_file(rendered)
        assert by_psql.dump() == blank.dump()
        assert _records(by_psql) == _records(blank)


def test_a_newer_psql_file_upgrades(
    blank: Database, empty: Connection, root: Path, tmp_path: Path
) -> None:
    migrate(empty, root=root)
    _write(root, "migrations/0002_more.sql", "create table jobforge.more (id int);")
    (root / "functions/a_first.sql").unlink()
    rendered = tmp_path / "jobforge.sql"
    rendered.write_text(render_sql(root))
    blank.run_file(rendered)
    assert [file.state for file in status(empty, root)] == [FileState.APPLIED] * 7


def test_the_psql_file_refuses_an_edited_migration(
    blank: Database, empty: Connection, root: Path, tmp_path: Path
) -> None:
    migrate(empty, root=root)
    _write(root, "migrations/0001_things.sql", "create table jobforge.other (id int);")
    rendered = tmp_path / "jobforge.sql"
    rendered.write_text(render_sql(root))
    with pytest.raises(AssertionError, match="changed after it was applied"):
        blank.run_file(rendered)


def test_supabase_files_applied_separately_give_the_same_schema(
    server: PostgresServer, blank: Database, empty: Connection, root: Path, tmp_path: Path
) -> None:
    migrate(empty, root=root)
    with fresh_database(server, template="template1") as by_supabase:
        for path in write_supabase(tmp_path / "supabase", root):
            by_supabase.run_file(path)
        assert by_supabase.dump() == blank.dump()
        assert _records(by_supabase) == _records(blank)


def test_supabase_files_are_the_same_on_every_machine(root: Path, tmp_path: Path) -> None:
    names = [path.name for path in write_supabase(tmp_path / "supabase", root)]
    assert names == [
        "20260101000000_jobforge_roles.sql",
        "20260101000001_jobforge_0001_things.sql",
        "20260101000002_jobforge_functions.sql",
        "20260101000003_jobforge_access.sql",
    ]
    assert write_supabase(tmp_path / "supabase", root) == []


def test_a_changed_function_gets_the_latest_supabase_version(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "supabase"
    write_supabase(folder, root)
    (folder / "20260630235959_their_own.sql").write_text("select 1;")
    _write(root, "functions/by_count/second.sql", "select 'changed';")
    assert [path.name for path in write_supabase(folder, root)] == [
        "20260701000000_jobforge_functions.sql",
        "20260701000001_jobforge_access.sql",
    ]
