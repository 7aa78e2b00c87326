"""`jobforge worker` as a process: signals, exit codes, several processes."""

import json
import os
import signal
from pathlib import Path
from typing import Literal
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database, wait_until
from integration.terminal import Terminal

from jobforge import JobForge, calls, db
from jobforge.cli.processes.worker_process import count_slots
from jobforge.errors import ConfigError

STARTED = '"worker.started"'

# A job reports that it runs, then waits for its release; both by a file in its app's folder.
APP = """
import asyncio, os, pathlib, time
from jobforge import Context, JobForge

jf = JobForge()
FOLDER = pathlib.Path(__file__).parent

@jf.job
def hold(ctx: Context, name: str) -> str:
    (FOLDER / f"{name}.runs").touch()
    while not (FOLDER / f"{name}.go").exists():
        time.sleep(0.01)
    return name

@jf.job(queue="light", isolation="inline")
async def echo(words: str) -> str:
    return words
"""

# Inline jobs that cannot be ended.
STUBBORN = """
import asyncio, pathlib, time
from jobforge import Context, JobForge

jf = JobForge()
FOLDER = pathlib.Path(__file__).parent

@jf.job(isolation="inline", grace=0)
async def in_thread() -> None:
    (FOLDER / "thread.runs").touch()
    await asyncio.to_thread(time.sleep, 600)

@jf.job(isolation="inline", grace=0)
async def in_loop() -> None:
    (FOLDER / "loop.runs").touch()
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass
"""


@pytest.fixture
def shell(database: Database, conn: Connection, tmp_path: Path) -> Terminal:
    (tmp_path / "app.py").write_text(APP)
    db.run(conn, calls.put_tenant(uuid4(), {"slug": "acme"}))
    return Terminal(tmp_path, JOBFORGE_DATABASE_URL=database.url, JOBFORGE_TENANT="acme")


def _jobs(settings: list[tuple[str, Literal["process", "inline"]]]) -> JobForge:
    jf = JobForge()

    async def handler() -> None: ...

    for number, (queue, isolation) in enumerate(settings):
        jf.job(key=f"job{number}", queue=queue, isolation=isolation)(handler)
    return jf


def _slots(jf: JobForge, queues: dict[str, int | None], concurrency: int | None) -> dict[str, int]:
    return count_slots(jf.definitions.values(), queues, concurrency)


def test_without_queues_a_worker_serves_those_of_its_definitions() -> None:
    cores = len(os.sched_getaffinity(0))
    jf = _jobs([("mail", "process"), ("mail", "inline"), ("light", "inline")])
    assert _slots(jf, {}, None) == {"light": 100, "mail": 2 * cores}


def test_a_slot_count_of_a_queue_overrides_the_common_one() -> None:
    jf = _jobs([("mail", "process")])
    assert _slots(jf, {"mail": 10, "other": None}, 3) == {"mail": 10, "other": 3}
    assert _slots(jf, {}, 7) == {"mail": 7}


def test_an_app_without_jobs_is_refused() -> None:
    with pytest.raises(ConfigError, match="no jobs"):
        _slots(JobForge(), {}, None)


COMMANDS = """
allowed_commands = [{allowed}]

[commands.greet]
argv = ["echo", "Hello, {{name}}"]
"""


def test_a_worker_with_commands_in_its_settings_needs_no_app(shell: Terminal) -> None:
    (shell.folder / "app.py").unlink()
    (shell.folder / "jobforge.toml").write_text(COMMANDS.format(allowed='"greet"'))
    with shell.start("worker") as worker:
        worker.wait_for(STARTED)
        assert "succeeded" in shell.read("enqueue", "greet", "name=Ada", "--wait")
        worker.signal(signal.SIGTERM)
        assert worker.wait_for_exit() == 0


def test_a_worker_that_allows_none_of_its_commands_names_the_setting(shell: Terminal) -> None:
    (shell.folder / "app.py").unlink()
    (shell.folder / "jobforge.toml").write_text(COMMANDS.format(allowed=""))
    refused = shell.run("worker")
    assert refused.returncode == 2
    assert "JOBFORGE_ALLOWED_COMMANDS=greet" in refused.stderr


def test_a_worker_runs_isolated_and_inline_jobs(shell: Terminal) -> None:
    (shell.folder / "a.go").touch()
    with shell.start("worker") as worker:
        worker.wait_for(STARTED)
        assert "succeeded" in shell.read("enqueue", "hold", "name=a", "--wait")
        assert "succeeded" in shell.read("enqueue", "echo", "words=hi", "--wait")
        worker.signal(signal.SIGTERM)
        assert worker.wait_for_exit() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_running_jobs_finish(shell: Terminal, number: int) -> None:
    with shell.start("worker", "app.py", "--queues", "default:1") as worker:
        worker.wait_for(STARTED)
        running, waiting = (shell.read("enqueue", "hold", f"name={name}") for name in "ab")
        wait_until((shell.folder / "a.runs").exists)
        worker.signal(number)
        worker.wait_for('"worker.draining"')
        (shell.folder / "a.go").touch()
        assert worker.wait_for_exit() == 0
    assert _state(shell, running) == "succeeded"
    assert _state(shell, waiting) == "queued"


def test_the_second_signal_releases_running_jobs(shell: Terminal) -> None:
    with shell.start("worker") as worker:
        worker.wait_for(STARTED)
        job_id = shell.read("enqueue", "hold", "name=a")
        wait_until((shell.folder / "a.runs").exists)
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGINT)
        assert worker.wait_for_exit() == 1
    job = shell.read_json("jobs", "show", job_id)
    assert job["job"]["state"] == "queued"
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["released"]


def test_jobs_that_outlast_a_drain_are_released(shell: Terminal) -> None:
    with shell.start("worker", "--drain-timeout", "0.1s") as worker:
        worker.wait_for(STARTED)
        job_id = shell.read("enqueue", "hold", "name=a")
        wait_until((shell.folder / "a.runs").exists)
        worker.signal(signal.SIGTERM)
        assert worker.wait_for_exit() == 0
    assert _state(shell, job_id) == "queued"


def test_abandoned_jobs_do_not_keep_the_process_running(shell: Terminal) -> None:
    (shell.folder / "app.py").write_text(STUBBORN)
    with shell.start("worker", "app.py", "--drain-timeout", "0.1s") as worker:
        worker.wait_for(STARTED)
        for name in ("thread", "loop"):
            shell.read("enqueue", f"in_{name}")
            wait_until((shell.folder / f"{name}.runs").exists)
        worker.signal(signal.SIGTERM)
        worker.wait_for('"worker.stopped"')
        assert worker.wait_for_exit() == 0


def test_a_worker_is_drained_remotely(shell: Terminal) -> None:
    with shell.start("worker") as worker:
        worker.wait_for(STARTED)
        (row,) = shell.read_json("workers", "list")
        shell.read("workers", "drain", row["id"])
        assert worker.wait_for_exit() == 0
    assert shell.read("workers", "list") == ""


def test_every_line_of_a_worker_is_json_unless_text_is_asked_for(shell: Terminal) -> None:
    with shell.start("worker") as worker:
        worker.wait_for(STARTED)
        worker.signal(signal.SIGTERM)
        worker.wait_for_exit()
    lines = [json.loads(line) for line in worker.output.splitlines()]
    assert all(UUID(line["worker_id"]) for line in lines)
    with shell.start("worker", "--log-format", "text") as worker:
        worker.wait_for("worker.started")
        worker.signal(signal.SIGTERM)
        worker.wait_for_exit()
    assert not worker.output.startswith("{")


@pytest.mark.parametrize("more", [[], ["--processes", "2"]])
def test_an_unreachable_database_at_the_start_is_exit_code_7(
    tmp_path: Path, more: list[str]
) -> None:
    (tmp_path / "app.py").write_text(APP)
    url = "postgresql://ada:open-sesame@127.0.0.1:1/app"
    result = Terminal(tmp_path, JOBFORGE_DATABASE_URL=url).run("worker", *more)
    assert result.returncode == 7
    assert result.stderr.splitlines()[0].startswith("error: Cannot connect to the database")
    assert "sesame" not in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no_such.py"], "no_such.py"),
        (["app.py:nothing"], "app.py:jf"),
        (["--queues", "mail:0"], "queues"),
        (["--queues", "no good"], "queues"),
        (["--concurrency", "many"], "concurrency"),
        (["--processes", "0"], "processes"),
        (["--drain-timeout", "soon"], "--drain-timeout"),
        (["--log-format", "xml"], "log_format"),
        (["--log-level", "loud"], "log_level"),
        (["broken.py"], "SyntaxError"),
        (["broken.py", "--processes", "2"], "SyntaxError"),
        (["empty.py"], "No app found"),
    ],
)
def test_an_invalid_configuration_is_exit_code_2(
    shell: Terminal, arguments: list[str], words: str
) -> None:
    (shell.folder / "broken.py").write_text("jf = (")
    (shell.folder / "empty.py").write_text("")
    result = shell.run("worker", *arguments)
    assert result.returncode == 2, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_dead_worker_process_is_replaced_and_all_drain_together(shell: Terminal) -> None:
    with shell.start("worker", "--processes", "2") as fleet:
        fleet.wait_for(STARTED, times=2)
        first, second = _live_pids(shell)
        os.kill(first, signal.SIGKILL)
        fleet.wait_for(STARTED, times=3)
        assert '"worker.died"' in fleet.output
        running = _live_pids(shell) - {first}
        assert len(running) == 2
        assert second in running
        fleet.signal(signal.SIGTERM)
        assert fleet.wait_for_exit() == 0
    assert all(not _is_alive(pid) for pid in running)


def test_the_second_signal_reaches_all_processes(shell: Terminal) -> None:
    with shell.start("worker", "--processes", "2", "--queues", "default:1") as fleet:
        fleet.wait_for(STARTED, times=2)
        job_ids = [shell.read("enqueue", "hold", f"name={name}") for name in "ab"]
        wait_until(lambda: all((shell.folder / f"{name}.runs").exists() for name in "ab"))
        fleet.signal(signal.SIGTERM)
        fleet.signal(signal.SIGINT)
        assert fleet.wait_for_exit() == 1
    assert [_state(shell, job_id) for job_id in job_ids] == ["queued", "queued"]


def test_worker_processes_exit_when_their_parent_is_killed(shell: Terminal) -> None:
    with shell.start("worker", "--processes", "2") as fleet:
        fleet.wait_for(STARTED, times=2)
        pids = _live_pids(shell)
        fleet.signal(signal.SIGKILL)
        wait_until(lambda: not any(map(_is_alive, pids)))
    assert shell.read("workers", "list") == ""


def _live_pids(shell: Terminal) -> set[int]:
    rows = shell.read_json("workers", "list")
    return {row["pid"] for row in rows if row["state"] == "live"}


def _state(shell: Terminal, job_id: str) -> str:
    return str(shell.read_json("jobs", "show", job_id)["job"]["state"])


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
