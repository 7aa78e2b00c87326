"""How a zygote finds the processes that finished jobs have left, tested in a separate process."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="as Linux has it")

# The first process of a chain forks and exits after the zygote has listed its children.
CHAIN = """
import os, select, time
from jobforge.worker.isolation import limits, proc
from jobforge.worker.isolation.children import Child, ChildTable
from jobforge.sdk.definition_settings import ProcessLimits

limits.become_subreaper()
children = ChildTable(None, 1024)
go, proceed = os.pipe()
alive, held = os.pipe()
job = os.fork()
if job == 0:
    if os.fork() == 0:
        os.setsid()
        os.read(go, 1)
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
        os._exit(0)
    os._exit(0)
os.close(held)
children.add(Child(1, job, "", "", ProcessLimits(0, None, 0, None), proc.now()))
os.waitid(os.P_PID, job, os.WEXITED | os.WNOWAIT)
assert [child.pid for child, _, _ in children.reap()] == [job]

read_children = proc.read_children
def read_after_fork(pid):
    found = read_children(pid)
    proc.read_children = read_children
    os.write(proceed, b".")
    [first] = found
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    return found
proc.read_children = read_after_fork
children.run_checks()
is_gone = bool(select.select([alive], [], [], 10)[0])
print(is_gone, read_children(os.getpid()))
os._exit(0)
"""


def test_a_process_that_forks_and_exits_during_a_sweep_does_not_end_the_sweep() -> None:
    run = [sys.executable, "-c", CHAIN]
    said = subprocess.run(run, capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.split() == ["True", "set()"]
