"""The processes that descend from a job: which they are, what they hold, and their end.

A job's process leads a session of its own, so a signal to its group reaches most of them. Some
start a session of their own or lose their parent; these are found in /proc, by their ancestors,
their session, or the mark in their environment. Without /proc there is the group alone.
"""

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MARK = "JOBFORGE_JOB"
LONGEST_MARK = 36 + 1 + 19  # the id of a job, a point, a lease

_PAGE = resource.getpagesize()
_PROC = Path("/proc")
_MOST_PASSES = 100
_LONGEST_STAT = 4096  # some fifty numbers and a short name


class ProcEntry(NamedTuple):
    pid: int
    parent: int
    session: int
    started: int  # ticks since boot
    is_zombie: bool


ProcTable = dict[int, ProcEntry]


class MemoryShare(NamedTuple):
    """Bytes of memory that a process holds; of what other processes share, its part."""

    private: int
    shared: int


def read_table() -> ProcTable:
    """All processes that can be seen."""
    with contextlib.suppress(OSError):
        found = (read_process(int(name)) for name in os.listdir(_PROC) if name.isdecimal())  # noqa: PTH208 - hundreds of names
        return {each.pid: each for each in found if each is not None}
    return {}


def read_children(pid: int) -> set[int] | None:
    """Of a process whose main thread has them all; None where the kernel does not tell."""
    try:
        return {int(word) for word in (_PROC / f"{pid}/task/{pid}/children").read_bytes().split()}
    except OSError:
        return None


def find_descendants(of: Iterable[int], among: ProcTable) -> set[int]:
    """The given processes and all that descend from them."""
    by_parent: dict[int, list[int]] = {}
    for each in among.values():
        by_parent.setdefault(each.parent, []).append(each.pid)
    found: set[int] = set()
    waiting = list(of)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += by_parent.get(pid, ())
    return found


def read_mark(pid: int) -> str | None:
    """The job whose environment the process was started with."""
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
    """All processes that carry one of the marks, and their descendants."""
    wanted = set(marks)
    among = read_table()
    return find_descendants([pid for pid in among if read_mark(pid) in wanted], among)


def kill_all(find: Callable[[], Iterable[int]]) -> None:
    """Ends all that `find` finds, until it finds no more: what is stopped can no longer fork."""
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
    """False when there is no such group."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def read_rss(pid: int) -> int:
    """Bytes of memory that the process occupies, shared ones included. Cheap."""
    try:
        with (_PROC / str(pid) / "statm").open("rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def read_pss(pid: int) -> MemoryShare:
    """Its share of the memory that is not of files. Costly."""
    try:
        with (_PROC / str(pid) / "smaps_rollup").open("rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return MemoryShare(0, 0)
    kilobytes = {words[0]: int(words[1]) for words in map(bytes.split, lines[1:])}
    return MemoryShare(kilobytes[b"Pss_Anon:"] * 1024, kilobytes[b"Pss_Shmem:"] * 1024)


def read_process(pid: int) -> ProcEntry | None:
    """None when it has ended."""
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
    # The name, in brackets, may itself hold brackets and spaces.
    words = text[text.rfind(b")") + 2 :].split()
    return ProcEntry(pid, int(words[1]), int(words[3]), int(words[19]), words[0] in b"ZX")


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def living(among: ProcTable) -> Iterator[ProcEntry]:
    return (each for each in among.values() if not each.is_zombie)


def now() -> float:
    """Seconds since boot."""
    return time.clock_gettime(_CLOCK)


def ticks(moment: float) -> int:
    """The moment as `Process.started` counts it."""
    return int(moment * _TICKS_PER_S)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
