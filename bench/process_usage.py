"""CPU time and memory of a process and its descendants."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _CPU = 1, slice(11, 15)  # fields of /proc/PID/stat after the name


def cpu_s(pid: int) -> float:
    """Return the family's CPU time, including exited children that their parents have reaped."""
    return sum(_ticks(each) for each in list_family(pid)) / _TICKS


def memory_mb(pid: int) -> float:
    """Return the family's proportional set size: shared pages are divided among the processes."""
    return sum(_pss_kb(each) for each in list_family(pid)) / 1000


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def list_family(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    parents = {int(each.name): parent_pid(each.name) for each in Path("/proc").glob("[0-9]*")}
    found = [pid]
    for ancestor in found:  # `found` grows during the loop
        found += [child for child, its_parent in parents.items() if its_parent == ancestor]
    return found


def parent_pid(pid: int | str) -> int:
    stat = _stat(pid)
    return int(stat[_PARENT]) if stat else 0


def _stat(pid: int | str) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # the process has exited
        return []
    return text.rpartition(")")[2].split()


def _ticks(pid: int) -> int:
    return sum(int(each) for each in _stat(pid)[_CPU])


def _pss_kb(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
