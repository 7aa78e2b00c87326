"""What runs before the first fork; in a process of its own."""

import subprocess
import sys

import pytest

CODE = """
import os, signal
from jobforge import JobForge
from jobforge.sdk.job_scope import find_process_channel
from jobforge.worker.isolation.warmup import warm_up

def found():
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    return find_process_channel(), handlers, len(os.listdir("/proc/self/fd"))

before = found()
warm_up(JobForge().client)
print(found() == before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux has it")
def test_a_rehearsal_leaves_no_door_no_handlers_and_nothing_open() -> None:
    run = [sys.executable, "-c", CODE]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "True\n"
