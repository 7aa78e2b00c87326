"""User IDs of jobs. The tests are about separate processes, and need root."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root changes to other users"
)

# Two workers take a block each. The second leaves a process behind, then both are killed.
LEFTOVER = """
import os, select, signal
from jobforge.worker.isolation.job_users import UserPool

FIRST = 3_100_000_000
alive, held = os.pipe()

def start_worker(leaves_a_process):
    ready, report = os.pipe()
    pid = os.fork()
    if pid:
        os.close(report)
        os.read(ready, 1)
        return pid
    user = UserPool(FIRST, FIRST + 511).acquire()
    if leaves_a_process and os.fork() == 0:
        os.setsid()
        os.closerange(1, 3)  # the end of the output shows that the worker has ended
        user.become()
        signal.alarm(60)
    else:
        os.close(held)
        if leaves_a_process:
            os.close(report)  # the process that is left reports once it has its user ID
            signal.pause()
    os.write(report, b".")
    signal.pause()

workers = [start_worker(False), start_worker(True)]
os.close(held)
for worker in workers:
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
user = UserPool(FIRST, FIRST + 511).acquire()
print(user.uid - FIRST, bool(select.select([alive], [], [], 10)[0]))
"""


def test_a_worker_kills_what_a_killed_worker_left_in_another_block() -> None:
    run = [sys.executable, "-c", LEFTOVER]
    output = subprocess.run(run, capture_output=True, text=True, check=True, timeout=60).stdout
    assert output.split() == ["1", "True"]
