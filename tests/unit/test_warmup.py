"""The warm-up before the first fork, tested in a separate process."""

import subprocess
import sys

import pytest

CODE = """
import os, signal
from jobforge import JobForge
from jobforge.sdk.call_context import find_process_channel
from jobforge.worker.isolation.warmup import warm_up

def found():
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    return find_process_channel(), handlers, len(os.listdir("/proc/self/fd"))

before = found()
warm_up(JobForge().client)
print(found() == before)
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="job processes are forked this way on Linux only"
)
def test_a_warmup_leaves_no_channel_no_signal_handlers_and_no_open_files() -> None:
    run = [sys.executable, "-c", CODE]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "True\n"
