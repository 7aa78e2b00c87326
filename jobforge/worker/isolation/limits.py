"""Kernel settings of a process: resource limits, parent death signal, privileges.

Settings that a system does not have are skipped; docs/isolation.md lists them.
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

from jobforge.sdk.definition_settings import MIB, ProcessLimits

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

# Extra memory for a process that has reached its limit, to report that.
_OOM_REPORT_BYTES = 16 * MIB
# The CPU time from SIGXCPU to SIGKILL for a process that ignores SIGXCPU.
_CPU_OVERTIME_S = 2

Rlimit = tuple[int, tuple[int, int]]  # the RLIMIT_ constant; the soft and hard limit
Rlimits = Sequence[Rlimit]

# PyDLL does not release the GIL during the call, which saves work in a new fork.
_prctl: Callable[[int, int, int, int, int], int] | None = (
    ctypes.PyDLL(None).prctl if sys.platform == "linux" else None
)


def die_with_parent(number: int) -> None:
    """Send this process the signal `number` when its parent ends.

    The kernel sends it when the parent's *thread* ends, so the parent must fork in its main thread.
    """
    _set_prctl(_PR_SET_PDEATHSIG, number)


def unhide() -> None:
    """Undo `hardening.forbid_inspection` in a job's process, which holds no credentials."""
    _set_prctl(_PR_SET_DUMPABLE, 1)


def become_subreaper() -> None:
    """Make this process adopt descendants whose parent ends."""
    _set_prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_no_new_privileges() -> None:
    """Prevent programs from gaining privileges, by setuid for example, permanently."""
    _set_prctl(_PR_SET_NO_NEW_PRIVS, 1)


def forbid_core_dumps() -> None:
    setrlimit(resource.RLIMIT_CORE, (0, 0))


def volunteer_for_oom() -> None:
    """Make the kernel's OOM killer choose this process before the worker."""
    try:
        fd = open_fd("/proc/self/oom_score_adj", O_WRONLY)
    except OSError:
        return
    try:  # noqa: SIM105 - contextlib.suppress is more pages to copy in a new fork
        write(fd, b"1000")
    except OSError:
        pass
    close(fd)


def rlimits_from_limits(limits: ProcessLimits, data_in_use: int) -> Rlimits:
    """Return the rlimits for the limits.

    `data_in_use` is the memory that the fork inherits; it is added to the memory limit.
    """
    found = [_make_rlimit(resource.RLIMIT_NOFILE, limits.open_files, limits.open_files)]
    if sys.platform == "linux":
        maximum = data_in_use + limits.memory_bytes
        found.append(_make_rlimit(resource.RLIMIT_DATA, maximum, maximum + _OOM_REPORT_BYTES))
    if limits.cpu_s:
        found.append(
            _make_rlimit(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + _CPU_OVERTIME_S)
        )
    if limits.file_size_bytes:
        size = limits.file_size_bytes
        found.append(_make_rlimit(resource.RLIMIT_FSIZE, size, size))
    return tuple(found)


def apply_rlimits(rlimits: Rlimits) -> None:
    """Limit this process and its descendants; the limits apply to each process separately."""
    for which, soft_and_hard in rlimits:
        setrlimit(which, soft_and_hard)


def apply_to_program(limits: ProcessLimits) -> None:
    """Set the memory limit just before exec, which discards the memory of the fork."""
    if sys.platform == "linux":
        apply_rlimits(
            [_make_rlimit(resource.RLIMIT_DATA, limits.memory_bytes, limits.memory_bytes)]
        )


def raise_memory_limit() -> None:
    """Raise the soft memory limit to the hard limit, so that the process can report the error."""
    with contextlib.suppress(ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        setrlimit(resource.RLIMIT_DATA, (hard, hard))


def read_data_in_use() -> int:
    """Return the bytes of this process that RLIMIT_DATA counts."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def _make_rlimit(which: int, soft: int, hard: int) -> Rlimit:
    # Without privileges, a hard limit can only be lowered.
    maximum = resource.getrlimit(which)[1]
    if maximum != resource.RLIM_INFINITY:
        soft, hard = min(soft, maximum), min(hard, maximum)
    return which, (soft, hard)


def _set_prctl(option: int, value: int) -> None:
    if _prctl is not None:
        _prctl(option, value, 0, 0, 0)
