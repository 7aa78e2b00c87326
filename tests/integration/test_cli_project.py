"""A new user's first minutes: the project of `jobforge init`, and a shell that completes words."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import Connection, Database
from integration.terminal import QuickTerminal, environment

from jobforge import calls, db
from jobforge.embedded import PostgresServer
from jobforge.testing import Kit
from jobforge.testing.cluster import Postgres

COMPLETE = """
eval "$(jobforge completion bash)"
completed() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _jobforge_completion jobforge
    echo "${COMPREPLY[@]}"
}
completed jobforge jobs ex
completed jobforge enqueue m
"""


@pytest.fixture(scope="session")
def jobforge_postgres(server: PostgresServer) -> Postgres:
    """Of the fixture jf_test: the server of this run."""
    return Postgres(server.url(), is_durable=False)


def test_the_test_of_a_new_project_passes(
    jf_test: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    QuickTerminal(tmp_path).read("init", "shop")
    monkeypatch.syspath_prepend(tmp_path / "shop")
    try:
        importlib.import_module("test_app").test_greet_returns_a_greeting(jf_test)
    finally:
        for name in ("app", "test_app"):
            sys.modules.pop(name, None)


def test_a_shell_completes_commands_and_names(
    database: Database, conn: Connection, tmp_path: Path
) -> None:
    db.run(conn, calls.put_definition("mail", 1))
    program = tmp_path / "jobforge"
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c "
        '\'import sys; sys.argv[0] = "jobforge"; '
        'from jobforge.cli import main; main()\' "$@"\n'
    )
    program.chmod(0o755)
    variables = environment(JOBFORGE_DATABASE_URL=database.url_as("admin_login"))
    variables["PATH"] = f"{tmp_path}{os.pathsep}{variables['PATH']}"

    done = subprocess.run(
        ["/bin/bash", "-eu", "-c", COMPLETE],
        capture_output=True,
        text=True,
        check=True,
        env=variables,
        timeout=60,
    )
    assert done.stdout.split() == ["export", "explain", "mail"]
