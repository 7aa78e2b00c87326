"""`jobforge workflows` against a database, without any worker."""

import json
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database
from integration.terminal import QuickTerminal, Terminal

from jobforge import calls, db
from jobforge.errors import Json
from jobforge.workflow import WorkflowRequest

NODES: list[dict[str, Json]] = [
    {"name": "extract", "definition": "step", "payload": {"password": "hunter2"}},
    {"name": "load", "definition": "step", "after": ["extract"]},
]


@pytest.fixture
def tenant_id(conn: Connection) -> UUID:
    acme = uuid4()
    db.run(conn, calls.put_tenant(acme, {"slug": "acme"}))
    db.run(conn, calls.put_definition("step", 1))
    return acme


@pytest.fixture
def workflow(conn: Connection, tenant_id: UUID) -> str:
    request = WorkflowRequest("nightly", NODES, {"token": "hunter2"})
    return str(db.run(conn, calls.enqueue_workflow(request, tenant_id=tenant_id)).id)


@pytest.fixture
def shell(database: Database, tmp_path: Path) -> Terminal:
    return QuickTerminal(
        tmp_path, JOBFORGE_DATABASE_URL=database.url_as("admin_login"), JOBFORGE_TENANT="acme"
    )


def test_a_workflow_is_listed_and_shown(shell: Terminal, workflow: str) -> None:
    assert shell.read("workflows", "list", "-q") == workflow
    assert "nightly" in shell.read("workflows", "list", "--state", "running")
    shown = shell.read("workflows", "show", workflow[:18])
    assert "extract" in shown
    assert "hunter2" not in shown
    document = json.loads(shell.read("workflows", "show", workflow, "--json"))
    assert document["edges"] == [["extract", "load"]]


def test_its_graph_is_drawn(shell: Terminal, workflow: str) -> None:
    drawn = shell.read("workflows", "show", workflow, "--graph").splitlines()[-2:]
    assert drawn == ["○  extract  queued", "◌  load  blocked"]


def test_it_is_canceled_and_retried(shell: Terminal, workflow: str) -> None:
    shell.read("workflows", "cancel", workflow, "--reason", "later")
    assert workflow in shell.read("workflows", "list", "--state", "canceled", "-q")
    shell.read("workflows", "retry", workflow, "--from", "extract")
    assert shell.read("workflows", "list", "--state", "canceled", "-q") == ""


def test_a_job_shows_its_parents(shell: Terminal, workflow: str) -> None:
    document = json.loads(shell.read("workflows", "show", workflow, "--json"))
    load = document["nodes"][1]["job_id"]
    shown = shell.read("jobs", "show", load)
    assert document["nodes"][0]["job_id"] in shown
    assert "nightly" in shown
