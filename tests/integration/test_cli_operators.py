"""`jobforge queues`, `defs` and `dlq` against a database, without any worker."""

import json
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database
from integration.terminal import QuickTerminal, Terminal

from jobforge import calls, db
from jobforge.job import JobRequest, Outcome, OutcomeReport

WORKER = uuid4()
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}}


@pytest.fixture
def tenant_id(conn: Connection) -> UUID:
    acme = uuid4()
    db.run(conn, calls.put_tenant(acme, {"slug": "acme"}))
    settings = {"max_attempts": 1, "queue": "post", "parameters": SCHEMA}
    db.run(conn, calls.put_definition("mail", 1, settings))
    return acme


@pytest.fixture
def shell(database: Database, tenant_id: UUID, tmp_path: Path) -> Terminal:  # noqa: ARG001
    return QuickTerminal(
        tmp_path, JOBFORGE_DATABASE_URL=database.url_as("admin_login"), JOBFORGE_TENANT="acme"
    )


def _die(conn: Connection, tenant_id: UUID, kind: str) -> None:
    db.run(conn, calls.enqueue_job(JobRequest("mail", {"to": "ada"}), tenant_id=tenant_id))
    (job,) = db.run(conn, calls.claim_jobs(WORKER, {"post": 1}))
    error = {"type": kind, "message": "it broke"}
    report = OutcomeReport(*job.token, Outcome.FAILED, job.started_at, error=error)
    db.run(conn, calls.complete_job(WORKER, report))


def test_a_queue_is_listed_with_its_jobs_its_limits_and_its_pause(
    shell: Terminal, conn: Connection, tenant_id: UUID
) -> None:
    db.run(conn, calls.enqueue_job(JobRequest("mail", {}), tenant_id=tenant_id))
    shell.read("queues", "limit", "post", "--max-running", "4", "--rate", "100/m")
    shell.read("queues", "pause", "post")
    (queue,) = shell.read_json("queues", "list")
    assert (queue["name"], queue["queued"], queue["max_running"]) == ("post", 1, 4)
    assert (queue["rate_limit"], queue["rate_period_s"]) == (100, 60)
    assert queue["paused_at"] is not None

    shell.read("queues", "resume", "post")
    shell.read("queues", "limit", "post", "--none")
    (queue,) = shell.read_json("queues", "list")
    assert (queue["max_running"], queue["rate_limit"], queue["paused_at"]) == (None, None, None)


@pytest.mark.parametrize(
    "words", [[], ["--none", "--max-running", "1"], ["--rate", "fast"], ["--rate", "0.5/s"]]
)
def test_a_limit_that_says_nothing_is_refused(shell: Terminal, words: list[str]) -> None:
    result = shell.run("queues", "limit", "post", *words)
    assert (result.returncode, result.stdout) == (2, "")


def test_a_definition_is_shown_paused_and_overridden(shell: Terminal) -> None:
    shell.read("defs", "override", "mail", "max_running:=2")
    shell.read("defs", "pause", "mail")
    (listed,) = shell.read_json("defs", "list", "--prefix", "ma")
    assert (listed["key"], listed["max_running"]) == ("mail", 2)
    assert listed["paused_at"] is not None
    assert shell.read_json("defs", "show", "mail@1")["registered"]["queue"] == "post"
    assert json.loads(shell.read("defs", "schema", "mail")) == SCHEMA
    shell.read("defs", "resume", "mail")
    shell.read("defs", "override", "mail", "max_running:=null")
    (listed,) = shell.read_json("defs", "list")
    assert (listed["max_running"], listed["paused_at"]) == (None, None)


@pytest.mark.parametrize(("name", "code"), [("male", 3), ("mail@9", 3), ("mail@x", 2)])
def test_a_definition_that_is_not_there_is_told(shell: Terminal, name: str, code: int) -> None:
    result = shell.run("defs", "show", name)
    assert (result.returncode, result.stdout) == (code, "")


def test_a_group_of_dead_jobs_is_counted_redriven_and_discarded(
    shell: Terminal, conn: Connection, tenant_id: UUID
) -> None:
    for kind in ("ValueError", "ValueError", "KeyError"):
        _die(conn, tenant_id, kind)
    found = shell.read_json("dlq", "groups")
    assert [(group["error"]["type"], group["jobs"]) for group in found] == [
        ("KeyError", 1),
        ("ValueError", 2),
    ]
    values = found[1]["fingerprint"]
    shell.read("dlq", "note", values[:12], "a typo in the template")
    assert shell.read_json("dlq", "show", values[:12])["note"] == "a typo in the template"
    assert shell.read("dlq", "redrive", values, "--dry-run") == "2"

    asked = shell.run("dlq", "redrive", values)
    assert asked.returncode == 2  # nobody to ask
    shell.read("dlq", "redrive", values, "--canary", "0", "--yes", "--no-wait")
    shell.read("dlq", "discard", "--all", "--yes", "--no-wait", "--reason", "too old")
    while db.run(conn, calls.advance_operations()) is not None:
        pass
    states = [job["state"] for job in shell.read_json("jobs", "list")]
    assert sorted(states) == ["canceled", "queued", "queued"]


def test_an_operation_on_nothing_or_on_no_group_is_not_begun(shell: Terminal) -> None:
    assert shell.run("dlq", "discard", "--all", "--yes").stdout == ""
    assert shell.run("dlq", "redrive").returncode == 2
    assert shell.run("dlq", "redrive", "0000").returncode == 3
    assert shell.read_json("dlq", "groups") == []
