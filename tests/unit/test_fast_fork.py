"""How a zygote forks, each case tested in a separate process."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="job processes are forked this way on Linux only"
)

BEGIN = """
import os, sys, threading
from jobforge.worker.isolation.fast_fork import ForkHooks, choose_fork
hooks = ForkHooks()
def is_pythons():
    return choose_fork(hooks) is os.fork
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


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="others are forked by os.fork")
def test_a_plain_app_is_forked_without_pythons_hooks() -> None:
    code = """
import jobforge.worker.isolation.zygote
with hooks.watch_registrations():
    import asyncio, concurrent.futures, logging, random, threading
    from jobforge import JobForge
print(is_pythons())
pid = choose_fork(hooks)()
if pid == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert _run_code(code) == ["False", "7"]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="others are forked by os.fork")
def test_traced_jobs_are_forked_without_pythons_hooks_too() -> None:
    code = """
from jobforge.observability import tracing
tracing.prepare_child_tracing()
print("opentelemetry.sdk" in sys.modules, is_pythons())
"""
    assert _run_code(code) == ["True", "False"]


def test_fork_hooks_that_an_app_registers_are_run() -> None:
    code = """
with hooks.watch_registrations():
    os.register_at_fork(after_in_child=lambda: print("ran", flush=True))
print(is_pythons(), flush=True)
if choose_fork(hooks)() == 0:
    os._exit(0)
os.wait()
"""
    assert _run_code(code) == ["True", "ran"]


@pytest.mark.parametrize("when", ["", "import random"])
def test_jobs_have_different_random_numbers(when: str) -> None:
    code = f"""
{when}
fork = choose_fork(hooks)
for _ in range(2):
    if fork() == 0:
        import random
        print(random.random(), flush=True)
        os._exit(0)
    os.wait()
"""
    first, second = _run_code(code)
    assert first != second


def test_an_app_with_threads_is_forked_by_os_fork() -> None:
    code = """
end = threading.Event()
thread = threading.Thread(target=end.wait)
thread.start()
print(is_pythons())
end.set()
thread.join()
"""
    assert _run_code(code) == ["True"]


def test_a_zygote_does_not_import_modules_that_few_jobs_need() -> None:
    code = """
import sys
import jobforge.worker.isolation.zygote
from jobforge import Context, JobForge
few = {"asyncio", "ssl", "jsonschema_rs", "random", "shutil", "tempfile", "difflib"}
print(few & sys.modules.keys() or "without")
"""
    assert _run_code(code) == ["without"]
