"""Kernel limits of a process, each tested in a separate process."""

import resource
import subprocess
import sys

import pytest

from jobforge.sdk.definition_settings import MIB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

BEGIN = """
import resource, signal, sys
from jobforge.process.hardening import forbid_inspection
from jobforge.worker.isolation import limits
from jobforge.sdk.definition_settings import ProcessLimits
def apply(**given):
    rlimits = limits.rlimits_from_limits(ProcessLimits(**given), limits.read_data_in_use())
    limits.apply_rlimits(rlimits)
"""


def _run_code(code: str) -> str:
    """Run the code in a separate process and return its output."""
    run = [sys.executable, "-c", BEGIN + code]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()


def test_memory_beyond_the_limit_is_refused() -> None:
    code = f"""
apply(memory_bytes={64 * MIB})
try:
    bytearray({128 * MIB})
except MemoryError:
    print("refused")
"""
    assert _run_code(code) == "refused"


def test_memory_used_before_does_not_count_against_the_limit() -> None:
    code = f"""
before = bytearray({128 * MIB})
apply(memory_bytes={64 * MIB})
print(len(bytearray({32 * MIB})))
"""
    assert _run_code(code) == str(32 * MIB)


def test_memory_for_reporting_an_error_can_be_released() -> None:
    code = f"""
apply(memory_bytes={16 * MIB})
taken = []
try:
    while True:
        taken.append(bytearray({MIB}))
except MemoryError:
    limits.raise_memory_limit()
    print(len(bytearray({8 * MIB})))
"""
    assert _run_code(code) == str(8 * MIB)


def test_the_other_limits_are_set() -> None:
    code = """
apply(cpu_s=7, open_files=32, file_size_bytes=4096)
for which in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
    print(resource.getrlimit(which)[0])
"""
    assert _run_code(code).split() == ["7", "32", "4096"]


def test_a_lower_existing_limit_is_kept() -> None:
    code = """
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
apply(open_files=1024)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    assert _run_code(code) == "20 20"


def test_a_limit_that_is_not_given_is_not_set() -> None:
    before = resource.getrlimit(resource.RLIMIT_CPU)[0]
    code = "apply(file_size_bytes=None)\nprint(resource.getrlimit(resource.RLIMIT_CPU)[0])"
    assert _run_code(code) == str(before)


def test_a_process_can_be_hidden_and_shown_again() -> None:
    code = """
import ctypes
PR_GET_DUMPABLE = 3
for change in (forbid_inspection, limits.unhide):
    change()
    print(ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0))
"""
    assert _run_code(code).split() == ["0", "1"]


def test_privileges_are_dropped_permanently() -> None:
    code = """
limits.set_no_new_privileges()
print([line for line in open("/proc/self/status") if line.startswith("NoNewPrivs")][0])
"""
    assert _run_code(code).split() == ["NoNewPrivs:", "1"]


def test_a_child_is_killed_when_its_parent_dies() -> None:
    code = """
import os
reading, writing = os.pipe()
middle = os.fork()
if middle == 0:
    if os.fork() == 0:
        limits.die_with_parent(signal.SIGKILL)
        os.write(writing, b".")
        while True:
            signal.pause()
    os.read(reading, 1)
    os._exit(0)
os.waitpid(middle, 0)
os.close(writing)
# Ends when nobody holds the other end any more.
print(os.read(reading, 1))
"""
    assert _run_code(code) == "b''"
