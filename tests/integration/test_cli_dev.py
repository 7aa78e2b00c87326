"""`jobforge dev` with an app, as a user works with it. The commands are those of the docs."""

import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import connect_to
from integration.terminal import RunningProgram, Terminal, environment
from sql import engine

from jobforge.cli.processes.reloader import is_source, source_folders
from jobforge.embedded import Embedded

ROOT = Path(__file__).parent.parent.parent
QUICKSTART = ROOT / "examples" / "quickstart"
STARTED = '"worker.started"'
AN_APP = "from jobforge import JobForge\njf = JobForge()\n"
NEW_JOB = """

@jf.job
def added() -> str:
    return "from the new code"
"""

BLOCKING_JOB = """
import time

@jf.job(isolation="inline")
async def block() -> None:
    print("it blocks", flush=True)
    while True:
        time.sleep(1)
"""


def _read(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def _commands(page: Path) -> str:
    """Return the commands that the page lists for the second terminal."""
    lines = [line[2:] for block in _read(page, "console") for line in block.splitlines()]
    return "\n".join(
        line
        for line in lines
        if line.startswith(("jobforge ", "export ")) and not line.startswith("jobforge dev")
    )


@pytest.fixture
def shell(folder: Path) -> Terminal:
    return Terminal(folder, JOBFORGE_TENANT="acme")


def _bash(folder: Path, script: str) -> "subprocess.CompletedProcess[str]":
    own = folder / "bin" / "jobforge"
    own.parent.mkdir()
    own.write_text(f'#!/bin/sh\nexec {sys.executable} -m jobforge "$@"\n')
    own.chmod(0o755)
    return subprocess.run(
        ["/bin/bash", "-eu", "-o", "pipefail", "-c", f'PATH="{own.parent}:$PATH"\n{script}'],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment(),
        timeout=90,
    )


def _end(dev: RunningProgram, folder: Path) -> None:
    dev.signal(signal.SIGINT)
    assert dev.wait_for_exit() == 0, dev.output
    assert "Stopped" in dev.output
    assert Embedded(folder / ".jobforge" / "pg").running() is None


def test_the_example_does_what_its_readme_says(shell: Terminal, folder: Path) -> None:
    shutil.copy(QUICKSTART / "app.py", folder)
    with shell.start("dev", "app.py") as dev:
        dev.wait_for_dev()
        assert "jobforge enqueue send_welcome to=TO name=NAME --tenant acme --wait" in dev.output
        assert re.search(r"Dashboard http://\S+/ui/t/acme/#ticket=jfticket_\S+", dev.output)
        done = _bash(folder, _commands(QUICKSTART / "README.md"))
        assert done.returncode == 0, done.stderr
        assert "Welcome, Ada!" in done.stdout
        assert "progress 5/5 page 5" in done.stdout
        assert _outcomes(shell, "fetch_rates") == ["failed", "failed", "succeeded"]
        assert "count_orders" in shell.read("triggers", "list")
        _end(dev, folder)


def test_a_job_of_the_example_notices_its_cancellation(shell: Terminal, folder: Path) -> None:
    shutil.copy(QUICKSTART / "app.py", folder)
    with shell.start("dev") as dev:
        dev.wait_for_dev()
        with shell.start("enqueue", "watch_folder", "--follow") as watching:
            watching.wait_for("watching")
            job_id = watching.output.split()[0]
            assert shell.read("jobs", "cancel", job_id) == f"{job_id}\tcanceling"
            assert watching.wait_for_exit() == 1
        assert "cleaned up" in watching.output
        assert "canceled" in watching.output
        _end(dev, folder)


def test_the_quick_start_runs_as_written(shell: Terminal, folder: Path) -> None:
    page = ROOT / "docs" / "quickstart.md"
    (folder / "app.py").write_text("\n\n".join(_read(page, "python")), encoding="utf-8")
    with shell.start("dev", "app.py") as dev:
        dev.wait_for_dev()
        done = _bash(folder, _commands(page))
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("ConnectionError") >= 2
        _end(dev, folder)


def _outcomes(shell: Terminal, definition: str) -> list[str]:
    job_id = shell.read("jobs", "list", "-q", "--limit", "1", "--definition", definition)
    return [attempt["outcome"] for attempt in shell.read_json("jobs", "show", job_id)["attempts"]]


def test_a_change_of_the_source_restarts_the_worker(shell: Terminal, folder: Path) -> None:
    app = folder / "app.py"
    shutil.copy(QUICKSTART / "app.py", app)
    source = app.read_text()
    with shell.start("dev", "app.py") as dev:
        dev.wait_for_dev()
        app.write_text(source + "oops(")
        dev.wait_for("SyntaxError")
        dev.wait_for("it restarts when a file changes")
        assert "Traceback" not in dev.output
        app.write_text(source + NEW_JOB)
        dev.wait_for(STARTED, times=2)
        assert "from the new code" in shell.read("enqueue", "added", "--wait")
        _end(dev, folder)


def test_a_handler_that_blocks_the_worker_does_not_prevent_a_restart_with_fixed_source(
    shell: Terminal, folder: Path
) -> None:
    app = folder / "app.py"
    app.write_text(AN_APP + BLOCKING_JOB)
    with shell.start("dev", "app.py") as dev:
        dev.wait_for_dev()
        shell.read("enqueue", "block")
        dev.wait_for("it blocks")
        app.write_text(AN_APP + NEW_JOB)
        dev.wait_for("killing it")
        dev.wait_for(STARTED, times=2)
        assert "from the new code" in shell.read("enqueue", "added", "--wait")
        _end(dev, folder)


def test_dev_waits_for_a_fix_of_an_app_that_is_broken_at_startup(
    shell: Terminal, folder: Path
) -> None:
    (folder / "jobs").mkdir()
    (folder / "jobs" / "mail.py").write_text("import no_such_thing")
    (folder / "app.py").write_text("from jobs.mail import jf")
    with shell.start("dev") as dev:
        dev.wait_for("Press Ctrl-C to stop.")
        dev.wait_for("no_such_thing")
        dev.wait_for("it restarts when a file changes")
        (folder / "jobs" / "mail.py").write_text(
            "from jobforge import JobForge\njf = JobForge()\n" + NEW_JOB
        )
        dev.wait_for(STARTED)
        _end(dev, folder)


def test_a_missing_app_is_reported_before_anything_starts(shell: Terminal, folder: Path) -> None:
    result = shell.run("dev", "no_such.py")
    assert result.returncode == 2
    assert "no_such.py" in result.stderr
    assert not (folder / ".jobforge").exists()


def test_dev_serves_on_the_port_that_you_choose_and_refuses_one_in_use(
    shell: Terminal, folder: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = shell.run("dev", "--port", port)
        assert (refused.returncode, f"Cannot listen on 127.0.0.1:{port}" in refused.stderr) == (
            2,
            True,
        )
    with shell.start("dev", "--port", port) as dev:
        dev.wait_for("Press Ctrl-C to stop.")
        assert _api(dev) == f"http://127.0.0.1:{port}"
        _end(dev, folder)


def test_only_source_below_the_app_is_watched(tmp_path: Path) -> None:
    for name in ("a/b", ".jobforge/pg", "__pycache__", "env/lib", "node_modules/x"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    watched = {str(folder.relative_to(tmp_path)) for folder in source_folders(tmp_path)}
    assert watched == {".", "a", "a/b"}


def test_an_unreadable_folder_is_not_watched(tmp_path: Path) -> None:
    (tmp_path / "pgdata").mkdir(mode=0o000)
    (tmp_path / "z").mkdir()
    tmp_path.chmod(0o755)
    code = """
import os
from pathlib import Path
from jobforge.cli.processes.reloader import source_folders
if os.getuid() == 0:  # who may read all
    os.setuid(65534)
print(*source_folders(Path()))
"""
    run = [sys.executable, "-c", code]
    said = subprocess.run(run, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert said.split() == [".", "z"]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("app.py", True),
        ("jobforge.toml", True),
        ("notes.md", False),
        ("app.pyc", False),
        (".#app.py", False),
        ("pyproject.toml", False),
    ],
)
def test_python_files_and_settings_are_source(name: str, *, is_one: bool) -> None:
    assert is_source(Path(name)) is is_one


def test_only_the_database_of_dev_can_be_emptied(shell: Terminal, folder: Path) -> None:
    with shell.start("dev") as dev:
        dev.wait_for("Schema ")
        dev.wait_for("Press Ctrl-C to stop.")
        url, key = shell.read("db", "url"), (folder / ".jobforge" / "key").read_text()
        with connect_to(url) as conn:
            engine.definition(conn)
            engine.enqueue_one(conn)
        asked = shell.run("db", "reset")
        assert (asked.returncode, "with 1 job: stdin is not a terminal" in asked.stderr) == (
            2,
            True,
        )
        named = Terminal(folder, JOBFORGE_DATABASE_URL=url)
        assert "1 job erased" in named.run("db", "reset", "--yes").stderr
        assert shell.read("definitions", "list") == ""
        [tenant] = shell.read_json("tenants", "list")
        assert tenant["slug"] == "acme"
        way = ("--server", _api(dev), "--api-key", key.strip())
        assert shell.read("jobs", "list", *way) == ""
        assert "No problems" in shell.run("db", "vacuum-advice").stderr

        other = Terminal(folder, JOBFORGE_DATABASE_URL=url.replace("/postgres?", "/template1?"))
        refused = other.run("db", "reset", "--yes")
        assert (refused.returncode, "another database" in refused.stderr) == (2, True)
        _end(dev, folder)
    gone = shell.run("db", "reset", "--yes")
    assert (gone.returncode, "hint: jobforge dev" in gone.stderr) == (2, True)


def _api(dev: RunningProgram) -> str:
    found = re.search(r"API +(http://\S+)/api/v1", dev.output)
    assert found, dev.output
    return found[1]
