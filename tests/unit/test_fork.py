"""What a fork of the zygote inherits, each case tested in a separate process."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="job processes are forked this way on Linux only"
)

BEGIN = """
import os, sys
"""


def _run_code(code: str) -> list[str]:
    """Run the code in a separate process and return the words of its output."""
    run = [sys.executable, "-c", BEGIN + code]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()


def test_no_program_of_a_job_inherits_file_descriptors_from_the_worker() -> None:
    code = """
import array, socket
from jobforge.worker.isolation import fork_server
for flag in (fork_server._CLOSE_ON_EXEC, 0):  # as on Linux, and elsewhere
    fork_server._CLOSE_ON_EXEC = flag
    ours, theirs = socket.socketpair()
    fds = array.array("i", os.pipe()).tobytes()
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    _, ancillary, _, _ = theirs.recvmsg(1, fork_server._SPACE_FOR_FDS, flag)
    print(*map(os.get_inheritable, fork_server._extract_fds(ancillary)))
"""
    assert _run_code(code) == ["False"] * 4


def test_a_zygote_does_not_import_modules_that_few_jobs_need() -> None:
    code = """
import sys
import jobforge.worker.isolation.zygote
from jobforge import Context, JobForge
few = {"asyncio", "ssl", "jsonschema_rs", "random", "shutil", "tempfile", "difflib"}
print(few & sys.modules.keys() or "without")
"""
    assert _run_code(code) == ["without"]
