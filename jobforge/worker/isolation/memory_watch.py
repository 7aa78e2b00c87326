"""Check whether a job's processes together exceed its memory limit.

The kernel limits each process separately (limits.py) and does not count shared memory. This check
adds up all processes of a job, every 0.1 to 1 second, depending on how much room is left. Jobs with
a cgroup do not need it.
"""

import os
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from jobforge.worker.isolation import proc

if TYPE_CHECKING:
    from jobforge.worker.isolation.sandbox import Sandbox

MIN_INTERVAL_S = 0.1
_MAX_INTERVAL_S = 1.0
# Assumed maximum allocation rate, which determines the next check.
_BYTES_PER_S = 1024**3
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a tmpfs to measure
_MEMORY_FILE_PREFIXES = ("/memfd:", f"{_SHARED_MEMORY}/")
_BLOCK = 512


class MemoryWatch:
    """The memory check of one job.

    Most of its processes are forks of the zygote and share unchanged pages with it (copy-on-write).
    So only the memory of a process that exceeds the zygote's counts as the job's.
    """

    __slots__ = ("_limit", "_sandbox", "_zygote", "due_at")

    def __init__(
        self, limit: int, zygote: int, due_at: float, sandbox: "Sandbox | None" = None
    ) -> None:
        self._limit = limit
        self._zygote = zygote
        self._sandbox = sandbox
        self.due_at = due_at

    def is_over(self, pids: Collection[int], now: float) -> bool:
        common = proc.read_rss(self._zygote)
        held = sum(max(0, proc.read_rss(pid) - common) for pid in pids)
        held += self._measure(lambda: _measure_files(pids, self._sandbox))
        if held > self._limit:
            own = proc.read_pss(self._zygote)
            held = self._measure(lambda: _measure_exactly(pids, own, self._sandbox))
        room = self._limit - held
        self.due_at = now + min(_MAX_INTERVAL_S, max(MIN_INTERVAL_S, room / _BYTES_PER_S))
        return room < 0

    def _measure(self, measure: Callable[[], int]) -> int:
        return measure() if self._sandbox is None else self._sandbox.run_with_access(measure) or 0


def _measure_exactly(
    pids: Collection[int], common: proc.MemoryShare, sandbox: "Sandbox | None"
) -> int:
    """Measure by PSS, which is slow; memory that is both in a file and mapped counts once."""
    shares = [proc.read_pss(pid) for pid in pids]
    mapped = sum(max(0, each.shared - common.shared) for each in shares)
    private = sum(max(0, each.private - common.private) for each in shares)
    return private + max(mapped, _measure_files(pids, sandbox))


def _measure_files(pids: Collection[int], sandbox: "Sandbox | None") -> int:
    """Return the size of memory-backed files: open ones, and those in the job's /dev/shm."""
    sizes = {(found.st_dev, found.st_ino): found.st_blocks for found in _stat_open_files(pids)}
    if sandbox is not None and sandbox.uid is not None:
        found_files = _stat_shared_memory_files(sandbox.uid)
        sizes |= {(found.st_dev, found.st_ino): found.st_blocks for found in found_files}
    private = _measure_private_mounts(pids) if sandbox is not None and sandbox.has_mounts else 0
    return sum(sizes.values()) * _BLOCK + private


def _stat_open_files(pids: Collection[int]) -> Iterator[os.stat_result]:
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            for name in os.listdir(folder):  # noqa: PTH208 - called many times a second
                path = f"{folder}/{name}"
                if os.readlink(path).startswith(_MEMORY_FILE_PREFIXES):  # noqa: PTH115 - called many times a second
                    yield os.stat(path)  # noqa: PTH116 - called many times a second
        except OSError:  # the process has ended
            continue


def _stat_shared_memory_files(uid: int) -> Iterator[os.stat_result]:
    try:
        with os.scandir(_SHARED_MEMORY) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if found.st_uid == uid:
                    yield found
    except OSError:
        return


def _measure_private_mounts(pids: Collection[int]) -> int:
    """Return the bytes in the job's private tmpfs.

    All of the job's processes see the same tmpfs, unless they have left its mount namespace.
    """
    for pid in pids:
        try:
            usage = os.statvfs(f"/proc/{pid}/root{_SHARED_MEMORY}")
        except OSError:
            continue
        return (usage.f_blocks - usage.f_bfree) * usage.f_frsize
    return 0
