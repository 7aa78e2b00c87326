"""What a process reveals of its arguments and environment, each tested in a separate process."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attacks import Attempts

from jobforge.cli.processes.child import ChildProcess
from jobforge.process.hardening import Handover

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")

CANARY = "kanari"
HARDEN = """
import os, subprocess, sys
from jobforge import config
from jobforge.process import hardening
hardening.harden()
"""


def _run_code(code: str, *arguments: str, **variables: str) -> str:
    """Run the code in a process that has hardened itself, and return its output."""
    return subprocess.run(
        [sys.executable, "-c", HARDEN + code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **variables},
    ).stdout


@linux
@pytest.mark.attack("credentials")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--database-url", f"postgresql://ada:{CANARY}@db/app"],
        [f"--database-url=postgresql://ada:{CANARY}@db/app"],
        ["--database-url", f"host=db password={CANARY}"],
        ["--database-url", f"service={CANARY}"],
        ["--api-key", CANARY],
        [f"--api-key={CANARY}"],
        ["--server", f"https://ada:{CANARY}@jobs.example.com"],
        ["-d", f"postgresql://ada:{CANARY}@db/app", "-c", "select 1"],
    ],
)
def test_the_command_line_shows_no_credentials(arguments: list[str]) -> None:
    code = "print(open('/proc/self/cmdline').read().split(chr(0))[3:-1], sys.argv[1:])"
    shown, _, given = _run_code(code, "worker", *arguments).strip().partition("] [")
    assert CANARY not in shown
    assert shown.startswith("['worker', ")
    assert CANARY in given


@linux
@pytest.mark.attack("credentials")
def test_the_environment_shows_nothing_and_child_processes_inherit_no_credentials(
    attempts: Attempts,
) -> None:
    names = ["JOBFORGE_DATABASE_URL", "JOBFORGE_SECRET_API", "JOBFORGE_KEY", "PGPASSWORD"]
    code = """
print(open("/proc/self/environ").read().strip(chr(0)))
print(subprocess.run(["env"], capture_output=True, text=True).stdout)
"""
    attempts(2 * len(names))
    said = _run_code(code, KEPT="kept", **dict.fromkeys(names, CANARY))
    assert CANARY not in said
    assert said.startswith("\n")
    assert "KEPT=kept" in said


def test_the_settings_are_still_those_of_the_environment(tmp_path: Path) -> None:
    code = f"""
os.chdir({str(tmp_path)!r})
print(config.load().database_url, config.load().server_port, config.find_origins()["database_url"])
os.environ["JOBFORGE_SERVER_PORT"] = "9"
print(config.load().server_port)
"""
    variables = {"JOBFORGE_DATABASE_URL": "postgresql://db/app", "JOBFORGE_SERVER_PORT": "8"}
    said = _run_code(code, **variables)
    assert said == "postgresql://db/app 8 JOBFORGE_DATABASE_URL\n9\n"


@pytest.mark.parametrize(
    ("url", "completed"),
    [
        ("postgresql://ada@db/app", "user=ada dbname=app host=db password=sesame"),
        ("postgresql://ada:own@db/app", "postgresql://ada:own@db/app"),
        ("service=main", "service=main"),
        ("postgresql://[", "postgresql://["),
    ],
)
def test_pgpassword_completes_the_url(tmp_path: Path, url: str, completed: str) -> None:
    code = f"os.chdir({str(tmp_path)!r}); print(config.load().database_url)"
    said = _run_code(code, JOBFORGE_DATABASE_URL=url, PGPASSWORD="sesame")
    assert sorted(said.split()) == sorted(completed.split())


def test_a_process_passes_on_the_values_that_it_hides() -> None:
    arguments = ["worker", "--database-url", CANARY, "--queues", "mail"]
    handover = Handover.from_arguments(arguments, {"JOBFORGE_KEY": CANARY, "LANG": "C"})
    assert handover.masked_arguments == ["worker", "--database-url", "***", "--queues", "mail"]
    assert handover.environment == {"LANG": "C"}
    assert CANARY.encode() in handover.secrets


def test_a_variable_that_is_not_utf_8_is_passed_on() -> None:
    value = os.fsdecode(b"\xff")
    handover = Handover.from_arguments(["worker"], {"JOBFORGE_SECRET_API": value})
    assert json.loads(handover.secrets)["environment"] == {"JOBFORGE_SECRET_API": value}


def test_a_started_process_receives_arguments_and_variables_of_any_size(tmp_path: Path) -> None:
    large = "x" * 120_000
    variables = {f"JOBFORGE_SECRET_{number}": large for number in range(20)}
    url = f"postgresql://{CANARY}:p@127.0.0.1:1/app"

    async def run() -> int:
        started = await ChildProcess.start(
            ["scheduler", "--database-url", url],
            {**os.environ, **variables, "HOME": str(tmp_path)},
        )
        return await started.wait()

    # Exit code 7: it has read everything, and the database that the URL names does not exist.
    assert asyncio.run(run()) == 7


def test_a_process_whose_parent_ended_too_early_does_not_start() -> None:
    code = """
import socket, subprocess, sys
ours, theirs = socket.socketpair()
ours.sendall(b'{"arguments": ["sched')
ours.close()
ended = subprocess.run([sys.executable, "-m", "jobforge", "version"],
    env={"JOBFORGE_HANDOVER_FD": str(theirs.fileno())}, pass_fds=[theirs.fileno()],
    capture_output=True, text=True)
print(ended.returncode, ended.stdout, ended.stderr)
"""
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert said.startswith("1  The parent process exited")
