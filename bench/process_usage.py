"""What a process and all that it started have used: processor time and memory."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _CPU = 1, slice(11, 15)  # fields of /proc/PID/stat after the name


def cpu_s(pid: int) -> float:
    """Of those that have ended too, as far as their parents have noticed."""
    return sum(_ticks(each) for each in list_family(pid)) / _TICKS


def memory_mb(pid: int) -> float:
    """Resident; what processes share is divided among them."""
    return sum(_pss_kb(each) for each in list_family(pid)) / 1000


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def list_family(pid: int) -> list[int]:
    """The process, its children and theirs."""
    parents = {int(each.name): parent_pid(each.name) for each in Path("/proc").glob("[0-9]*")}
    found = [pid]
    for one in found:
        found += [child for child, its in parents.items() if its == one]
    return found


def parent_pid(pid: int | str) -> int:
    stat = _stat(pid)
    return int(stat[_PARENT]) if stat else 0


def _stat(pid: int | str) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it has ended meanwhile
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
