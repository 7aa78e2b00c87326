"""An upgrade from the first schema: an old database gets the current schema and keeps its jobs."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from cluster import Connection, Database, connect_to, fresh_database
from rights import rights
from sql.engine import TENANT_A, Row, call, claim, new_worker
from write_snapshot import SNAPSHOT

from jobforge.db.migrate import check, migrate
from jobforge.db.schema_files import read_scripts
from jobforge.embedded import PostgresServer

# The rows that an application and a worker of the first release have left.
USED = """
select jobforge.put_definition('old', 1, '{"max_attempts": 3}');
select jobforge.put_tenant('aaaaaaaa-0000-4000-8000-000000000001', '{"slug": "a"}');
select set_config('app.tenant_id', 'aaaaaaaa-0000-4000-8000-000000000001', false);
select jobforge.enqueue_job('old', '{"n": 1}'), jobforge.enqueue_job('old', '{"n": 2}');
select jobforge.create_trigger('schedule', '{"label": "s", "definition": "old", "cron": "@daily"}');
select jobforge.claim_jobs('11111111-0000-4000-8000-000000000001', '{default}', '{1}');
"""
WORKER = UUID("11111111-0000-4000-8000-000000000001")


@pytest.fixture
def former(server: PostgresServer, tmp_path: Path) -> Iterator[Database]:
    """Create a database with the first schema."""
    path = tmp_path / "initial.sql"
    path.write_bytes(gzip.decompress(SNAPSHOT.read_bytes()))
    with fresh_database(server, template="template1") as database:
        database.run_file(path)
        yield database


def test_the_first_schema_has_migrations_of_this_release(former: Database) -> None:
    with connect_to(former.url) as conn:
        recorded = conn.execute(
            "select name, checksum from jobforge.migrations where name like 'migrations/%'"
        ).fetchall()
    own = {script.name: script.checksum for script in read_scripts() if script.is_migration}
    edited = [row["name"] for row in recorded if own.get(row["name"]) != row["checksum"]]
    assert edited == [], "a migration was edited: before the first release, run `make snapshot`"
    assert recorded != []


def test_an_upgraded_database_has_the_schema_of_a_new_one(
    former: Database, database: Database, conn: Connection
) -> None:
    with psycopg.connect(former.url, autocommit=True) as upgraded:
        upgraded.execute(USED.encode())
        migrate(upgraded)
        check(upgraded)
    assert former.dump() == database.dump()
    with connect_to(former.url) as upgraded:
        assert rights(upgraded) == rights(conn)


def test_jobs_of_the_first_schema_run_after_the_upgrade(former: Database) -> None:
    with psycopg.connect(former.url, autocommit=True) as upgraded:
        upgraded.execute(USED.encode())
        migrate(upgraded)
    with connect_to(former.url) as conn:
        worker = new_worker()
        assert _succeed(conn, worker, *claim(conn, worker)) == ["succeeded"]
        held = conn.execute("select id as job_id, lease from jobforge.jobs where state = 'running'")
        assert _succeed(conn, WORKER, *held.fetchall()) == ["succeeded"]
        [trigger] = call(conn, "list_triggers", tenant_id=TENANT_A)
        assert trigger["label"] == "s"


def _succeed(conn: Connection, worker: UUID, row: Row) -> list[str]:
    token = {"tenant_id": str(TENANT_A), "job_id": str(row["job_id"]), "lease": row["lease"]}
    outcomes = [token | {"outcome": "succeeded"}]
    return [
        each["state"] for each in call(conn, "complete_jobs", worker_id=worker, outcomes=outcomes)
    ]
