"""`jobforge failures` and `jobforge tenants` against a database, without any worker."""

import signal
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database
from integration.terminal import InProcessTerminal, Terminal

from jobforge import calls, db
from jobforge.types.jobs import JobRequest, Outcome, OutcomeReport

WORKER = uuid4()


@pytest.fixture
def tenant_id(conn: Connection) -> UUID:
    acme = uuid4()
    db.run(conn, calls.put_tenant(acme, {"slug": "acme"}))
    settings = {"max_attempts": 1, "queue": "post"}
    db.run(conn, calls.put_definition("mail", 1, settings))
    return acme


@pytest.fixture
def shell(database: Database, tenant_id: UUID, tmp_path: Path) -> Terminal:  # noqa: ARG001
    return InProcessTerminal(
        tmp_path, JOBFORGE_DATABASE_URL=database.url_as("admin_login"), JOBFORGE_TENANT="acme"
    )


def _die(conn: Connection, tenant_id: UUID, kind: str) -> None:
    db.run(conn, calls.enqueue_job(JobRequest("mail", {"to": "ada"}), tenant_id=tenant_id))
    (job,) = db.run(conn, calls.claim_jobs(WORKER, {"post": 1}))
    error = {"type": kind, "message": "it broke"}
    report = OutcomeReport(*job.token, Outcome.FAILED, job.started_at, error=error)
    db.run(conn, calls.complete_job(WORKER, report))


def test_a_group_of_dead_jobs_is_counted_redriven_and_discarded(
    shell: Terminal, conn: Connection, tenant_id: UUID
) -> None:
    for kind in ("ValueError", "ValueError", "KeyError"):
        _die(conn, tenant_id, kind)
    found = shell.read_json("failures", "list")
    assert [(group["error"]["type"], group["jobs"]) for group in found] == [
        ("KeyError", 1),
        ("ValueError", 2),
    ]
    values = found[1]["fingerprint"]
    shell.read("failures", "note", values[:12], "a typo in the template")
    assert shell.read_json("failures", "show", values[:12])["note"] == "a typo in the template"
    assert shell.read("failures", "redrive", values, "--dry-run") == "2"

    asked = shell.run("failures", "redrive", values)
    assert asked.returncode == 2  # stdin is not a terminal
    shell.read("failures", "redrive", values, "--canary", "0", "--yes", "--no-wait")
    shell.read("failures", "discard", "--all", "--yes", "--no-wait", "--reason", "too old")
    while db.run(conn, calls.advance_operations()) is not None:
        pass
    states = [job["state"] for job in shell.read_json("jobs", "list")]
    assert sorted(states) == ["canceled", "queued", "queued"]


def test_an_erasure_without_a_store_says_how_to_delete_the_artifacts(
    shell: Terminal, conn: Connection
) -> None:
    conn.execute("select jobforge.record_artifact_store(gen_random_uuid(), 'worker', 'elsewhere')")
    with shell.start("tenants", "delete", "acme", "--yes") as waiting:
        waiting.wait_for("waiting for a server, a Python worker or jobforge tenants delete")
        waiting.signal(signal.SIGINT)
        assert waiting.wait_for_exit() == 130
