"""What a migration and a repair restore, and what they refuse."""

import shutil
from pathlib import Path

import psycopg
import pytest
from cluster import Connect, Connection, Database, fresh_database
from rights import rights

from jobforge.db.migrate import access_faults, check, migrate, repair
from jobforge.db.schema_files import SQL, fingerprint, read_revision, render_sql, write_supabase
from jobforge.embedded import PostgresServer
from jobforge.errors import MigrationError

# Each is something that a restore, a managed service or a person may have done.
DAMAGES = {
    "a function of the restoring login": "alter function jobforge.get_job owner to postgres",
    "a function for everybody": "grant execute on function jobforge.delete_tenant to public",
    "a function for clients": "grant execute on function jobforge.delete_tenant to jobforge_client",
    "a function for a role of another system": "grant execute on all functions in schema jobforge "
    "to pg_monitor",
    "a function taken away": "revoke execute on function jobforge.claim_jobs from jobforge_worker",
    "a grant to pass on": "grant execute on function jobforge.get_job to jobforge_client "
    "with grant option",
    "a table for everybody": "grant select, insert on jobforge.api_keys to public",
    "a table for clients": "grant select on jobforge.api_keys to jobforge_client",
    "a column for clients": "grant select (hash) on jobforge.api_keys to jobforge_client",
    "a view for workers": "grant select on jobforge.all_jobs to jobforge_worker",
    "a table of the restoring login": "alter table jobforge.jobs owner to postgres",
    "a type of the restoring login": "alter type jobforge.tenant_heads owner to postgres",
    "the record of the restoring login": "alter table jobforge.migrations owner to postgres",
    "the schema of the restoring login": "alter schema jobforge owner to postgres",
    "the schema for everybody": "grant create on schema jobforge to public",
    "the internal schema of the restoring login": "alter schema jobforge_private owner to postgres",
    "the internal schema for clients": "grant usage on schema jobforge_private to jobforge_client",
    "a stray policy": "create policy clients on jobforge.api_keys to jobforge_client using (true)",
    "an opened policy": "alter policy client_reads on jobforge.jobs using (true)",
    "no row security": "alter table jobforge.jobs disable row level security",
    "no forced row security": "alter table jobforge.attempts no force row level security",
    "a view with its owner's rights": "alter view jobforge.all_jobs reset (security_invoker)",
    "no search_path": "alter function jobforge.get_job reset search_path",
    "default privileges": "alter default privileges for role jobforge_engine "
    "grant execute on functions to public",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damage_is_reported_and_repaired(conn: Connection, damage: str) -> None:
    before = rights(conn)
    assert access_faults(conn) == []
    conn.execute(DAMAGES[damage].encode())
    assert rights(conn) != before
    with pytest.raises(MigrationError) as caught:
        check(conn)
    assert "jobforge db migrate --repair" in str(caught.value.hint)
    assert len(str(caught.value)) < 1000
    assert repair(conn) != [] or damage in CORRECTED_FIRST
    assert rights(conn) == before
    check(conn)


# Without these the migration record could not be read, so they are corrected before the comparison.
CORRECTED_FIRST = {
    "a function of the restoring login",
    "a table of the restoring login",
    "a type of the restoring login",
    "the record of the restoring login",
    "the schema of the restoring login",
    "the internal schema of the restoring login",
}


def test_a_database_without_policies_and_grants_is_repaired_and_then_unchanged(
    conn: Connection,
) -> None:
    before = rights(conn)
    conn.execute(
        """
        do $$
        declare
            v_each record;
        begin
            for v_each in select policyname, tablename from pg_policies
                           where schemaname = 'jobforge' loop
                execute format('drop policy %I on jobforge.%I',
                               v_each.policyname, v_each.tablename);
            end loop;
            for v_each in select oid::regprocedure as name from pg_proc
                           where pronamespace = any (
                                 '{jobforge,jobforge_private}'::regnamespace[]) loop
                execute format('alter function %s owner to postgres', v_each.name);
                execute format('grant execute on function %s to public', v_each.name);
            end loop;
        end $$;
        """
    )
    with pytest.raises(MigrationError) as caught:
        migrate(conn)
    assert "--repair" in str(caught.value.hint)
    repair(conn)
    assert rights(conn) == before
    assert repair(conn) == []
    assert rights(conn) == before


def test_a_repair_locks_only_damaged_tables_and_changes_all_or_nothing(
    conn: Connection, connect: Connect
) -> None:
    before = rights(conn)
    reader = connect(autocommit=False)
    for row in conn.execute(
        "select oid::regclass::text as name from pg_class"
        " where relnamespace = 'jobforge'::regnamespace and relkind in ('r', 'p')"
    ).fetchall():
        reader.execute(f"lock table only {row['name']} in access share mode".encode())
    conn.execute(b"grant execute on function jobforge.delete_tenant to public")
    repair(conn, lock_timeout="10ms")
    assert rights(conn) == before

    reader.rollback()
    conn.execute(b"grant execute on function jobforge.delete_tenant to public")
    conn.execute(b"alter policy client_reads on jobforge.jobs using (true)")
    reader.execute("select from jobforge.jobs")
    damaged = rights(conn)
    with pytest.raises(MigrationError) as caught:
        repair(conn, lock_timeout="10ms")
    assert "--lock-timeout" in str(caught.value.hint)
    assert rights(conn) == damaged
    reader.rollback()
    repair(conn)
    assert rights(conn) == before


def test_a_migration_removes_what_the_release_does_not_list(
    conn: Connection, tmp_path: Path
) -> None:
    before = rights(conn)
    for damage in ("a function for clients", "a stray policy", "a column for clients"):
        conn.execute(DAMAGES[damage].encode())
    migrate(conn, root=_changed_schema(tmp_path))
    assert rights(conn) == before


def test_an_upgraded_database_has_the_schema_and_rights_of_a_new_one(
    conn: Connection, database: Database, server: PostgresServer, tmp_path: Path
) -> None:
    """The previous release had another function, grant, policy, and policy of a table."""
    earlier = _copy(tmp_path / "earlier")
    access = earlier / "access.sql"
    text = access.read_text(encoding="utf-8")
    text = text.replace("('jobforge_service', '{find_tenant,", "('jobforge_client', '{find_tenant,")
    text = text.replace("'webhook_endpoints', 'tenant_keys'", "'tenant_keys'")
    access.write_text(text, encoding="utf-8")
    (earlier / "functions" / "gone.sql").write_text(
        "create or replace function jobforge.gone() returns int language sql return 1;",
        encoding="utf-8",
    )
    with fresh_database(server, template="template1") as old:
        with psycopg.connect(old.url, autocommit=True) as upgraded:
            migrate(upgraded, root=earlier)
        with psycopg.connect(old.url, autocommit=True, row_factory=conn.row_factory) as upgraded:
            assert rights(upgraded) != rights(conn)
            assert old.definitions() != database.definitions()
            migrate(upgraded)
            assert rights(upgraded) == rights(conn)
        assert old.definitions() == database.definitions()


def test_a_function_with_a_changed_signature_is_dropped(conn: Connection, tmp_path: Path) -> None:
    earlier = _copy(tmp_path)
    changed = earlier / "functions" / "foundation" / "now.sql"
    changed.write_text(
        changed.read_text(encoding="utf-8")
        + "\ncreate or replace function jobforge_private.store_heads(p_one text) returns void"
        " language sql as 'select';",
        encoding="utf-8",
    )
    migrate(conn, root=earlier)
    assert _overloads(conn, "store_heads") == 2
    migrate(conn)
    assert _overloads(conn, "store_heads") == 1


def test_a_function_that_an_application_uses_is_not_dropped(
    conn: Connection, tmp_path: Path
) -> None:
    conn.execute("create function jobforge.earlier() returns int language sql return 1")
    conn.execute("create view public.mine as select jobforge.earlier() as n")
    with pytest.raises(
        MigrationError, match=r"view public\.mine depends on function jobforge\.earlier"
    ):
        migrate(conn, root=_changed_schema(tmp_path))
    assert conn.execute("select n from public.mine").fetchone() == {"n": 1}
    conn.execute("drop view public.mine")
    migrate(conn)
    assert _overloads(conn, "earlier") == 1  # nothing was to be done
    repair(conn)
    assert _overloads(conn, "earlier") == 0


def test_an_older_release_does_not_replace_newer_functions(
    conn: Connection, database: Database, tmp_path: Path
) -> None:
    older = _changed_schema(tmp_path / "older")
    (older / "revision").write_text("0 x", encoding="utf-8")
    body = "select prosrc from pg_proc where oid = 'jobforge_private.now()'::regprocedure"
    before = conn.execute(body).fetchone()
    for attempt in (migrate, repair):
        with pytest.raises(MigrationError, match="newer than this release") as caught:
            attempt(conn, root=older)
        assert "Upgrade JobForge" in str(caught.value.hint)
    rendered = tmp_path / "older.sql"
    rendered.write_text(render_sql(older), encoding="utf-8")
    with pytest.raises(AssertionError, match="newer than this release"):
        database.run_file(rendered)
    assert conn.execute(body).fetchone() == before
    # An older release that would change nothing has nothing to refuse.
    same = _copy(tmp_path / "same")
    (same / "revision").write_text("0 x", encoding="utf-8")
    assert migrate(conn, root=same) == []


def test_an_older_release_does_not_write_into_a_newer_folder(tmp_path: Path) -> None:
    older = _changed_schema(tmp_path / "older")
    (older / "revision").write_text("0 x", encoding="utf-8")
    written = write_supabase(tmp_path / "supabase")
    with pytest.raises(MigrationError, match="newer than this release"):
        write_supabase(tmp_path / "supabase", older)
    assert sorted((tmp_path / "supabase").iterdir()) == sorted(written)


def test_the_revision_is_that_of_these_files() -> None:
    recorded = (SQL / "revision").read_text(encoding="utf-8").split()
    assert recorded == [str(read_revision()), fingerprint()], (
        "a file under sql/ changed: run make pages"
    )


def _copy(folder: Path) -> Path:
    shutil.copytree(SQL, folder / "sql")
    return folder / "sql"


def _changed_schema(folder: Path) -> Path:
    """Copy the schema, with another body of one function."""
    root = _copy(folder)
    with (root / "functions" / "foundation" / "now.sql").open("a", encoding="utf-8") as function:
        function.write("-- of another release\n")
    return root


def _overloads(conn: Connection, name: str) -> int:
    return len(
        conn.execute(
            "select from pg_proc where proname = %s"
            " and pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])",
            [name],
        ).fetchall()
    )
