"""What the kernel is told about a process: its limits, its death with its parent, its privileges.

What does not exist on a system is left out there; docs/isolation.md says what that is.
"""

import contextlib
import ctypes
import resource
import sys
from collections.abc import Callable, Sequence
from os import O_WRONLY, close, write
from os import open as open_fd
from pathlib import Path
from resource import setrlimit

from jobforge.sdk.settings import MIB, ProcessLimits

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

# What a process gets on top, once it is out of memory, to say so.
_OOM_REPORT_BYTES = 16 * MIB
# After SIGXCPU, for a process that ignores it.
_CPU_OVERTIME_S = 2

Rlimit = tuple[int, tuple[int, int]]  # which limit; soft and hard
Rlimits = Sequence[Rlimit]

# It keeps the interpreter's lock, which a fresh fork need not let go.
_prctl: Callable[[int, int, int, int, int], int] | None = (
    ctypes.PyDLL(None).prctl if sys.platform == "linux" else None
)


def die_with_parent(how: int) -> None:
    """Counts for the parent's *thread*: only a process that forks from its main one may use it."""
    _set_prctl(_PR_SET_PDEATHSIG, how)


def unhide() -> None:
    """Undo `hardening.hide` in a job's process, which holds no credentials."""
    _set_prctl(_PR_SET_DUMPABLE, 1)


def become_subreaper() -> None:
    """Descendants whose parent ends become children of this process."""
    _set_prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_no_new_privileges() -> None:
    """No program run from here on gains any, by setuid or otherwise."""
    _set_prctl(_PR_SET_NO_NEW_PRIVS, 1)


def forbid_core_dumps() -> None:
    setrlimit(resource.RLIMIT_CORE, (0, 0))


def volunteer_for_oom() -> None:
    """When the machine runs out of memory, this process is killed before the worker is."""
    try:
        fd = open_fd("/proc/self/oom_score_adj", O_WRONLY)
    except OSError:
        return
    try:  # noqa: SIM105 - with suppress a fresh fork has more pages to copy
        write(fd, b"1000")
    except OSError:
        pass
    close(fd)


def rlimits_from_limits(limits: ProcessLimits, data_in_use: int) -> Rlimits:
    """The limits as the kernel takes them.

    `data_in_use` is what the process was forked with, and is not held against it.
    """
    found = [_make_rlimit(resource.RLIMIT_NOFILE, limits.open_files, limits.open_files)]
    if sys.platform == "linux":
        most = data_in_use + limits.memory_bytes
        found.append(_make_rlimit(resource.RLIMIT_DATA, most, most + _OOM_REPORT_BYTES))
    if limits.cpu_s:
        found.append(
            _make_rlimit(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + _CPU_OVERTIME_S)
        )
    if limits.file_size_bytes:
        size = limits.file_size_bytes
        found.append(_make_rlimit(resource.RLIMIT_FSIZE, size, size))
    return tuple(found)


def apply_rlimits(bounds: Rlimits) -> None:
    """Limits this process and all that it starts; each process is counted by itself."""
    for which, soft_and_hard in bounds:
        setrlimit(which, soft_and_hard)


def apply_to_program(limits: ProcessLimits) -> None:
    """Just before exec: the program that comes starts with nothing in use."""
    if sys.platform == "linux":
        apply_rlimits(
            [_make_rlimit(resource.RLIMIT_DATA, limits.memory_bytes, limits.memory_bytes)]
        )


def raise_memory_limit() -> None:
    """For a process that is out of memory and still has to say so."""
    with contextlib.suppress(ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        setrlimit(resource.RLIMIT_DATA, (hard, hard))


def read_data_in_use() -> int:
    """What RLIMIT_DATA counts of this process."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def _make_rlimit(which: int, soft: int, hard: int) -> Rlimit:
    # A hard limit can be lowered only.
    most = resource.getrlimit(which)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    return which, (soft, hard)


def _set_prctl(option: int, value: int) -> None:
    if _prctl is not None:
        _prctl(option, value, 0, 0, 0)
