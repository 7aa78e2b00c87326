"""A zygote whose finished job has left a process: is that process killed?

    python -m integration.left_processes {fork,thread}

`fork`: the process forks and exits after the zygote has listed its children. `thread`: its main
thread has exited, so the kernel shows it as a zombie, and another thread runs.
"""

import contextlib
import ctypes
import os
import select
import sys
import threading
import time

from cluster import wait_until

from jobforge.sdk.definition_settings import ProcessLimits
from jobforge.worker.clock import now
from jobforge.worker.isolation import proc
from jobforge.worker.isolation.children import Child, ChildTable

_PR_SET_CHILD_SUBREAPER = 36
_LONGER_THAN_THE_TEST_S = 60
_libc = ctypes.CDLL(None)


def _leave(way: str, go: int) -> None:
    """Run the process that the job leaves. It and its forks hold the write end of a pipe."""
    os.setsid()
    os.read(go, 1)
    if way == "thread":
        threading.Thread(target=time.sleep, args=(_LONGER_THAN_THE_TEST_S,)).start()
        _libc.pthread_exit(None)
    if os.fork() == 0:
        time.sleep(_LONGER_THAN_THE_TEST_S)


def main() -> None:
    [way] = sys.argv[1:]
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    children = ChildTable(None, 10)
    gone, held = os.pipe()
    go, gate = os.pipe()
    job = os.fork()
    if job == 0:
        if os.fork() == 0:
            _leave(way, go)
        os._exit(0)
    os.close(held)
    children.add(Child(1, job, "mark", "/nowhere", ProcessLimits(), now()))
    wait_until(lambda: bool(list(children.reap())))
    left = next(iter(proc.read_children(os.getpid()) or ()))

    def end() -> None:
        os.write(gate, b".")
        wait_until(lambda: (found := proc.read_process(left)) is not None and found.is_zombie)

    if way == "thread":
        end()
    else:
        read_children = proc.read_children

        def read_and_be_late(pid: int) -> set[int] | None:
            found = read_children(pid)
            proc.read_children = read_children
            end()
            return found

        proc.read_children = read_and_be_late
    time.sleep(children.next_check_s() or 0)
    children.run_checks()
    is_all_gone = bool(select.select([gone], [], [], 10)[0])
    with contextlib.suppress(ProcessLookupError):
        os.kill(left, 9)
    print(is_all_gone)  # noqa: T201 - output for the test


if __name__ == "__main__":
    main()
