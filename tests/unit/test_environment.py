"""The environment variables of a job's process, each tested in a separate process."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

BEGIN = """
import os, subprocess
from jobforge.worker.isolation.environment import set_job_variables
"""


def _run_code(code: str) -> list[str]:
    """Run the code in a separate process and return its output."""
    run = [sys.executable, "-c", BEGIN + code]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()


def test_the_job_and_its_child_processes_see_only_the_variables_of_that_job() -> None:
    code = """
set_job_variables("/jobs/7", "an-id.7")
names = ["HOME", "TMPDIR", "JOBFORGE_JOB", "JOBFORGE_JOB_ID"]
print(*(os.environ[name] for name in names), flush=True)
subprocess.run(["printenv", *names])
"""
    assert _run_code(code) == ["/jobs/7", "/jobs/7", "an-id.7", "an-id"] * 2


def test_a_handler_can_change_its_variables() -> None:
    code = """
set_job_variables("/jobs/7", "an-id.7")
os.environ["HOME"] = "/elsewhere"
del os.environ["TMPDIR"]
subprocess.run(["printenv", "HOME", "TMPDIR"])
"""
    assert _run_code(code) == ["/elsewhere"]
