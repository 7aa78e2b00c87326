"""The environment variables of a job that is about to be forked, each tested in a separate
process."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

BEGIN = """
import os, subprocess
from jobforge.worker.isolation import limits
from jobforge.worker.isolation.environment import JobVariables
variables = JobVariables("/jobs")
"""


def _run_code(code: str) -> list[str]:
    """Run the code in a separate process and return its output."""
    run = [sys.executable, "-c", BEGIN + code]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()


def test_the_job_and_its_child_processes_see_only_the_variables_of_that_job() -> None:
    code = """
variables.set("/jobs/1234", "an-id-that-is-long.1234")
variables.set("/jobs/7", "an-id.7")
names = ["HOME", "TMPDIR", "JOBFORGE_JOB", "JOBFORGE_JOB_ID"]
print(*(os.environ[name] for name in names), flush=True)
subprocess.run(["printenv", *names])
"""
    assert _run_code(code) == ["/jobs/7", "/jobs/7", "an-id.7", "an-id"] * 2


def test_a_handler_can_change_its_variables() -> None:
    code = """
variables.set("/jobs/7", "an-id.7")
os.environ["HOME"] = "/elsewhere"
del os.environ["TMPDIR"]
subprocess.run(["printenv", "HOME", "TMPDIR"])
"""
    assert _run_code(code) == ["/elsewhere"]


def test_the_variables_take_constant_memory_for_any_number_of_jobs() -> None:
    code = """
before = limits.read_data_in_use()
for run in range(20_000):
    variables.set(f"/jobs/{run}", f"{run:036}.{run}")
print(limits.read_data_in_use() - before < 2**20)
"""
    assert _run_code(code) == ["True"]
