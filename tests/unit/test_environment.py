"""The variables of a job that is about to be forked. Each test speaks of a process of its own."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="as Linux has it")

BEGIN = """
import os, subprocess
from jobforge.worker.isolation import limits
from jobforge.worker.isolation.environment import JobVariables
variables = JobVariables("/jobs")
"""


def _says(code: str) -> list[str]:
    """What a process prints that runs the code."""
    run = [sys.executable, "-c", BEGIN + code]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()


def test_the_job_and_its_programs_see_the_variables_of_that_job_alone() -> None:
    code = """
variables.set("/jobs/1234", "an-id-that-is-long.1234")
variables.set("/jobs/7", "an-id.7")
names = ["HOME", "TMPDIR", "JOBFORGE_JOB", "JOBFORGE_JOB_ID"]
print(*(os.environ[name] for name in names), flush=True)
subprocess.run(["printenv", *names])
"""
    assert _says(code) == ["/jobs/7", "/jobs/7", "an-id.7", "an-id"] * 2


def test_a_handler_can_change_them() -> None:
    code = """
variables.set("/jobs/7", "an-id.7")
os.environ["HOME"] = "/elsewhere"
del os.environ["TMPDIR"]
subprocess.run(["printenv", "HOME", "TMPDIR"])
"""
    assert _says(code) == ["/elsewhere"]


def test_they_take_no_more_memory_however_many_jobs_there_are() -> None:
    code = """
before = limits.read_data_in_use()
for run in range(20_000):
    variables.set(f"/jobs/{run}", f"{run:036}.{run}")
print(limits.read_data_in_use() - before < 2**20)
"""
    assert _says(code) == ["True"]
