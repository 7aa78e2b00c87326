"""Find, measure and kill the processes that descend from a job.

A job's process leads a separate session, so a signal to its process group reaches most of them.
Descendants that start another session or lose their parent are found in /proc: by their ancestors,
their session, or the mark in their environment. Without /proc only the group is reached.
"""

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MARK = "JOBFORGE_JOB"
LONGEST_MARK = 36 + 1 + 19  # a job ID, a dot, a lease

_PAGE = resource.getpagesize()
_PROC = Path("/proc")
_MOST_PASSES = 100
_LONGEST_STAT = 4096  # about 50 numbers and a short name
_CHILDREN_CHUNK = 4096


class ProcEntry(NamedTuple):
    pid: int
    parent: int
    session: int
    started: int  # ticks since boot
    is_zombie: bool


ProcTable = dict[int, ProcEntry]


class MemoryShare(NamedTuple):
    """The proportional set size (PSS) of a process, in bytes of private and shared memory."""

    private: int
    shared: int


def read_table() -> ProcTable:
    """Return all processes that /proc shows."""
    with contextlib.suppress(OSError):
        found = (read_process(int(name)) for name in os.listdir(_PROC) if name.isdecimal())  # noqa: PTH208 - hundreds of names
        return {each.pid: each for each in found if each is not None}
    return {}


def read_children(pid: int) -> set[int] | None:
    """Return the children of the process's main thread; None if the kernel does not list them."""
    try:
        fd = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY)
    except OSError:
        return None
    try:
        text = b""
        while part := os.read(fd, _CHILDREN_CHUNK):
            text += part
    except OSError:
        return None
    finally:
        os.close(fd)
    return set(map(int, text.split()))


def find_descendants(roots: Iterable[int], table: ProcTable) -> set[int]:
    """Return the given processes and their descendants."""
    by_parent: dict[int, list[int]] = {}
    for each in table.values():
        by_parent.setdefault(each.parent, []).append(each.pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += by_parent.get(pid, ())
    return found


def read_mark(pid: int) -> str | None:
    """Return the mark of the job with whose environment the process was started, or None."""
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    prefix = f"{MARK}=".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None


def find_marked(marks: Iterable[str]) -> set[int]:
    """Return all processes with one of the marks, and their descendants."""
    wanted = set(marks)
    table = read_table()
    return find_descendants([pid for pid in table if read_mark(pid) in wanted], table)


def kill_all(find: Callable[[], Iterable[int]]) -> None:
    """Kill all processes that `find` returns.

    It stops them first, and repeats that until `find` returns no new ones: stopped processes cannot
    fork.
    """
    stopped: set[int] = set()
    for _ in range(_MOST_PASSES):
        new = {pid for pid in find() if pid not in stopped and _signal(pid, signal.SIGSTOP)}
        if not new:
            break
        stopped |= new
    for pid in stopped:
        _signal(pid, signal.SIGKILL)


def kill_group(leader: int) -> None:
    signal_group(leader, signal.SIGKILL)


def signal_group(leader: int, number: int) -> bool:
    """Signal the process group; return False if there is no such group."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def read_rss(pid: int) -> int:
    """Return the resident set size (RSS) of the process in bytes; includes shared memory. Fast."""
    try:
        with (_PROC / str(pid) / "statm").open("rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def read_pss(pid: int) -> MemoryShare:
    """Return the PSS of the process's anonymous and shared memory (smaps_rollup). Slow."""
    try:
        with (_PROC / str(pid) / "smaps_rollup").open("rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return MemoryShare(0, 0)
    kilobytes = {words[0]: int(words[1]) for words in map(bytes.split, lines[1:])}
    return MemoryShare(kilobytes[b"Pss_Anon:"] * 1024, kilobytes[b"Pss_Shmem:"] * 1024)


def read_process(pid: int) -> ProcEntry | None:
    """Return the process; None if it has ended."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        text = os.read(fd, _LONGEST_STAT)
    except OSError:
        return None
    finally:
        os.close(fd)
    # The name, in parentheses, may itself contain parentheses and spaces.
    words = text[text.rfind(b")") + 2 :].split()
    return ProcEntry(pid, int(words[1]), int(words[3]), int(words[19]), words[0] in b"ZX")


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def living(table: ProcTable) -> Iterator[ProcEntry]:
    return (each for each in table.values() if not each.is_zombie)


def ticks(moment: float) -> int:
    """Convert the moment to the unit of `ProcEntry.started`."""
    return int(moment * _TICKS_PER_S)


_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
