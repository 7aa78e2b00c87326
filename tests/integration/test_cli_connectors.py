"""`jobforge connectors` and `jobforge secrets`, with a worker that serves connectors by default."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from attacks import Attempts
from cluster import Connection, Database, wait_until
from integration.terminal import QuickTerminal, Terminal, environment

from jobforge import calls, db

APP = """
from jobforge import JobForge

jf = JobForge()

@jf.job
def own() -> None: ...
"""
STARTED = '"worker.started"'
OLD, NEW = "o" * 40, "n" * 40
TOKEN = "tok-0a1b2c3d4e5f-secret"


class Receiver(BaseHTTPRequestHandler):
    seen: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers["Authorization"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"received")

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def receiver() -> Iterator[tuple[int, list[tuple[str, str | None]]]]:
    seen: list[tuple[str, str | None]] = []
    handler = type("Own", (Receiver,), {"seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], seen
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def variables(database: Database, conn: Connection, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "app.py").write_text(APP)
    db.run(conn, calls.put_tenant(uuid4(), {"slug": "acme"}))
    return {"JOBFORGE_DATABASE_URL": database.url_as("admin_login"), "JOBFORGE_TENANT": "acme"}


def given(folder: Path, variables: dict[str, str], text: str, *arguments: str) -> str:
    """What a command prints that reads this text."""
    result = subprocess.run(
        [sys.executable, "-m", "jobforge", *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment(**variables),
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_a_configuration_goes_through_its_life_and_a_rotation(
    variables: dict[str, str], database: Database, tmp_path: Path
) -> None:
    with receiver() as (port, seen):
        allowed = {"JOBFORGE_EGRESS_ALLOW": f"127.0.0.1:{port}", "JOBFORGE_EGRESS_HTTP": "true"}
        before = {**variables, **allowed, "JOBFORGE_SECRET_KEY": OLD}
        both = {**before, "JOBFORGE_SECRET_KEY": NEW, "JOBFORGE_SECRET_KEY_PREVIOUS": OLD}
        after = {**before, "JOBFORGE_SECRET_KEY": NEW}
        shell = QuickTerminal(tmp_path, **before)
        url, header = f"http://127.0.0.1:{port}/v1/", "Authorization: Bearer {{secret.token}}"
        made = given(
            *(tmp_path, before, f"{TOKEN}\n", "connectors", "create", "billing", url),
            *("--header", header, "--secret", "token", "--secret-from", "user=env:USER"),
        )
        [listed] = shell.read_json("connectors", "list")
        assert (listed["id"], listed["name"]) == (made, "billing")
        assert listed["secrets"] == {"token": "sealed", "user": "env:USER"}
        assert shell.read("connectors", "list", "-q") == made
        shell.read("connectors", "edit", "billing", "--name", "paying", "--remove-secret", "user")
        shown = shell.read_json("connectors", "show", "paying")
        assert (shown["settings"]["url"], shown["secrets"]) == (url, {"token": "sealed"})
        assert TOKEN not in shell.read("connectors", "show", made)

        QuickTerminal(tmp_path, **both).read("secrets", "rotate")
        again = QuickTerminal(tmp_path, **both).run("secrets", "rotate")
        assert again.stderr.startswith("0 tenant keys")
        working = {**after, "JOBFORGE_DATABASE_URL": database.url_as("worker_login")}
        with Terminal(tmp_path, **working).started("worker", "app.py") as program:
            wait_until(lambda: STARTED in program.said)
            answer = QuickTerminal(tmp_path, **after).read_json("connectors", "test", "paying", "x")
        assert answer["result"]["text"] == "received"
        assert seen == [("/v1/x", f"Bearer {TOKEN}")]
        assert TOKEN not in program.said

        shell.read("connectors", "delete", "paying", "--yes")
        assert shell.run("connectors", "show", "paying").returncode == 3


def test_what_cannot_be_saved_is_told(variables: dict[str, str], tmp_path: Path) -> None:
    shell = QuickTerminal(tmp_path, **variables)
    for url in ("https://127.0.0.1/", "http://example.com/", "https://user@example.com/"):
        assert shell.run("connectors", "create", "bad", url).returncode == 2
    url = "https://example.com/"
    shell.read("connectors", "create", "plain", url)
    for words in (
        ("connectors", "create", "x", url, "--header", "Host: y"),
        ("connectors", "create", "x", url, "--header", "nothing"),
        ("connectors", "create", "x", url, "--secret-from", "a=vault:b"),
        ("connectors", "create", "x", url, "--secret", "a"),
        ("connectors", "edit", "plain"),
        ("secrets", "rotate"),
    ):
        assert shell.run(*words).returncode == 2, words
    assert shell.run("connectors", "create", "plain", url).returncode == 5
    assert len(shell.read("secrets", "key")) >= 32


def test_a_worker_leaves_connectors_to_others_when_it_is_told_so(
    variables: dict[str, str], database: Database, conn: Connection, tmp_path: Path
) -> None:
    working = {**variables, "JOBFORGE_DATABASE_URL": database.url_as("worker_login")}
    with Terminal(tmp_path, **working).started("worker", "app.py", "--no-connectors") as program:
        wait_until(lambda: STARTED in program.said)
        [row] = conn.execute("select queues, definitions from jobforge.workers").fetchall()
    assert row == {"queues": ["default"], "definitions": ["own@1"]}


@pytest.mark.attack("connectors")
def test_on_a_database_another_origin_needs_the_secrets_too(
    variables: dict[str, str], tmp_path: Path, attempts: Attempts
) -> None:
    sealing = {**variables, "JOBFORGE_SECRET_KEY": OLD}
    shell = QuickTerminal(tmp_path, **sealing)
    token, moved = ("--secret", "token"), ("--url", "https://evil.example/")
    first = "https://example.com/"
    given(tmp_path, sealing, f"{TOKEN}\n", "connectors", "create", "billing", first, *token)
    webhook = shell.read_json("webhooks", "create", first)
    for command in (("connectors", "edit", "billing"), ("webhooks", "edit", webhook["id"])):
        refused = shell.run(*command, *moved)
        assert (refused.returncode, "another origin" in refused.stderr) == (2, True)
    given(tmp_path, sealing, "another\n", "connectors", "edit", "billing", *moved, *token)
    text = f"{webhook['secret']}\n"
    given(tmp_path, sealing, text, "webhooks", "edit", webhook["id"], *moved, "--secret")
    assert shell.read_json("webhooks", "show", webhook["id"])["url"] == moved[1]
    assert shell.read_json("connectors", "show", "billing")["settings"]["url"] == moved[1]
    attempts(2)
