"""`jobforge doctor` on databases with problems."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from cluster import Connect, Connection, Database
from integration.terminal import InProcessTerminal, Terminal
from sql import engine
from sql.long_json import Column, plant_long_values

from jobforge import calls, db
from jobforge.db.doctor import probes
from jobforge.types.jobs import JobRequest
from jobforge.types.triggers import TriggerType


@pytest.fixture
def shell(database: Database, tmp_path: Path) -> Terminal:
    return InProcessTerminal(tmp_path, JOBFORGE_DATABASE_URL=database.url_as("admin_login"))


def findings(shell: Terminal) -> dict[str, str]:
    """Return the findings by check."""
    found = shell.run("doctor", "--json")
    assert found.stdout, found.stderr
    ill = [each for each in json.loads(found.stdout) if each["grade"] != "ok"]
    assert (found.returncode == 1) == any(each["grade"] == "failed" for each in ill)
    return {each["check"]: each["message"] for each in ill}


def test_a_new_installation_only_lacks_workers_and_the_right_to_see_other_sessions(
    shell: Terminal,
) -> None:
    # The test cluster runs without fsync and autovacuum, and doctor is right to report it.
    found = set(findings(shell)) - {"credentials"}
    assert found <= {"workers", "snapshots", "durability", "vacuum"}
    lines = shell.run("doctor").stdout.splitlines()
    assert lines[0].startswith("✓ server")


def test_opened_policies_disabled_features_and_unserved_queues_are_found(
    shell: Terminal, conn: Connection
) -> None:
    tenant_id = uuid4()
    db.run(conn, calls.put_definition("mail", 3, {"queue": "post"}))
    db.run(conn, calls.enqueue_job(JobRequest("mail", {}), tenant_id=tenant_id))
    conn.execute("alter table jobforge.jobs no force row level security")
    conn.execute("grant execute on function jobforge_private.now() to public")
    conn.execute("alter table jobforge.jobs set (autovacuum_enabled = false)")
    conn.execute("update jobforge.migrations set checksum = 'x' where name like '%claim_jobs%'")
    found = findings(shell)
    assert "mail@3 have been waiting in queue post" in found["definitions"]
    assert {"access", "vacuum", "schema"} <= set(found)


def test_missing_partitions_and_rows_in_the_default_partition_are_found(
    shell: Terminal, conn: Connection
) -> None:
    for row in conn.execute(
        """
        select c.relname from pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relname ~ '^attempts_[0-9]{8}$'
        """
    ).fetchall():
        conn.execute(f"drop table jobforge.{row['relname']}".encode())
    assert "partitions" not in findings(shell)  # a table without any is not partitioned by day
    conn.execute(
        "create table jobforge.attempts_20200101 partition of jobforge.attempts"
        " for values from ('2020-01-01') to ('2020-01-02')"
    )
    assert "attempts has partitions for 0 days" in findings(shell)["partitions"]
    engine.definition(conn)
    engine.enqueue_one(conn)
    worker = engine.new_worker()
    engine.complete(conn, worker, engine.claim(conn, worker))
    assert "attempts has rows in its default partition" in findings(shell)["partitions"]
    engine.call(conn, "ensure_partitions")
    conn.execute("select pg_stat_force_next_flush()")
    assert "partitions" not in findings(shell)
    assert (engine.count(conn, "attempts_default"), engine.count(conn, "attempts")) == (0, 1)


def test_the_session_that_holds_a_snapshot_is_reported(connect: Connect, conn: Connection) -> None:
    holder = connect(autocommit=False)
    holder.execute("set transaction isolation level repeatable read")
    holder.execute("select 1")
    held = db.run(conn, probes.vacuum_blockers())
    assert str(holder.info.backend_pid) in [each.name for each in held if each.kind == "session"]


def test_a_database_without_the_schema_gets_an_install_hint(
    conn: Connection, shell: Terminal
) -> None:
    conn.execute("alter schema jobforge rename to elsewhere")
    try:
        assert findings(shell) == {"schema": "The schema is not installed"}
    finally:
        conn.execute("alter schema elsewhere rename to jobforge")


def test_a_schema_of_an_earlier_release_gets_a_migrate_hint(
    shell: Terminal, conn: Connection
) -> None:
    conn.execute("drop function jobforge.find_problems(), jobforge.list_migrations()")
    assert "from this release" in findings(shell)["schema"]


def test_schedules_and_events_without_a_scheduler_are_found(
    shell: Terminal, conn: Connection
) -> None:
    tenant_id = uuid4()
    db.run(conn, calls.put_definition("mail", 1))
    settings = {"label": "nightly", "definition": "mail", "cron": "* * * * *"}
    db.run(conn, calls.create_trigger(TriggerType.SCHEDULE, settings, tenant_id=tenant_id))
    db.run(conn, calls.emit_event("order.paid", tenant_id=tenant_id))
    conn.execute("update jobforge.triggers set due_at = now() - interval '1 hour'")
    conn.execute("update jobforge.outbox set event_at = now() - interval '1 hour'")
    found = findings(shell)
    assert "Schedule 'nightly'" in found["schedules"]
    assert "Events waiting for dispatch: 1," in found["events"]


def test_a_row_that_is_too_long_as_text_is_reported_until_its_statement_has_run(
    shell: Terminal, conn: Connection
) -> None:
    tenant_id = uuid4()
    db.run(conn, calls.put_definition("mail", 3, {"parameters": {"type": "object"}}))
    db.run(conn, calls.enqueue_job(JobRequest("mail", {}), tenant_id=tenant_id))
    for column in (Column("definitions", "parameters"), Column("audit_log", "detail")):
        plant_long_values(conn, column)
    found = [
        each
        for each in json.loads(shell.run("doctor", "--json").stdout)
        if each["check"] == "values"
    ]
    [definition] = [each for each in found if "jobforge.definitions" in each["message"]]
    assert "with key = 'mail' and version = '3'" in definition["message"]
    for each in found:
        conn.execute(each["fix"].encode())
    assert "values" not in findings(shell)


def test_advice_about_vacuum_has_the_tables_and_a_command_for_each_finding(
    shell: Terminal, conn: Connection
) -> None:
    engine.definition(conn)
    engine.enqueue_one(conn)
    conn.execute("alter table jobforge.jobs set (autovacuum_enabled = false)")
    conn.execute("select pg_stat_force_next_flush()")
    conn.execute("select 1")
    advice = shell.read_json("db", "vacuum-advice")
    [jobs] = [table for table in advice["tables"] if table["name"] == "jobs"]
    assert (jobs["live"], jobs["dead"], jobs["has_autovacuum"]) == (1, 0, False)
    fixes = [finding["fix"] for finding in advice["findings"]]
    assert "alter table jobforge.jobs reset (autovacuum_enabled);" in fixes
    assert all(fixes)
    assert "jobs\t1\t0\t\toff\n" in shell.run("db", "vacuum-advice").stdout


def test_bound_logins_are_listed_and_unconfined_ones_are_failures(
    shell: Terminal, conn: Connection
) -> None:
    tenant = uuid4()
    assert "logins" not in {
        each["check"] for each in json.loads(shell.run("doctor", "--json").stdout)
    }
    for login in ("bound_client_login", "bound_worker_login"):
        db.run(conn, calls.bind_login(login, [tenant]))
    assert "logins" not in findings(shell)
    assert f"bound_client_login ({tenant})" in shell.run("doctor").stdout
    conn.execute(
        "insert into jobforge.bound_logins values ('server_login', %s, now(), 'test')", [[tenant]]
    )
    assert "it is a member of jobforge_server" in findings(shell)["logins"]
    assert "jobforge db unbind-login server_login" in shell.run("doctor").stdout


def test_advice_about_vacuum_needs_the_schema(conn: Connection, shell: Terminal) -> None:
    conn.execute("alter schema jobforge rename to elsewhere")
    try:
        assert "hint: jobforge db migrate" in shell.run("db", "vacuum-advice").stderr
    finally:
        conn.execute("alter schema elsewhere rename to jobforge")


def test_a_file_with_credentials_that_jobs_can_read_is_reported(
    database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "url"
    file.write_text(database.url_as("admin_login"))
    shell = InProcessTerminal(tmp_path, JOBFORGE_DATABASE_URL_FILE=str(file))
    assert str(file) in findings(shell)["credentials"]
