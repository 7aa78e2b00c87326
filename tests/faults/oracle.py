"""What really happened in a run, as told by those who did it and not by the engine.

Producers append every acknowledged job to a file and sync it before they go on. Handlers append
marks to another: that they entered, that they live, that they came to their end. A single write to
a file opened for appending is not torn, and outlives its writer.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from uuid import UUID


class Mark(NamedTuple):
    """One line of a handler. `at` is in seconds since the machine started."""

    job: UUID
    lease: int
    what: str
    pid: int
    at: float


@dataclass(slots=True)
class Run:
    """One lease of a job as its handler lived it."""

    entered: float
    last_seen: float
    pids: set[int] = field(default_factory=set)
    came_to_its_end: bool = False


@dataclass(slots=True)
class Oracle:
    """The two files of one run."""

    folder: Path
    _read_to: int = 0
    _marks: list[Mark] = field(default_factory=list)
    _runs: dict[tuple[UUID, int], Run] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    @property
    def marks_file(self) -> Path:
        return self.folder / "marks"

    @property
    def acks_file(self) -> Path:
        return self.folder / "acks"

    def acknowledge(self, jobs: Iterable[UUID]) -> None:
        with self.acks_file.open("a") as file:
            file.writelines(f"{job}\n" for job in jobs)
            file.flush()
            os.fsync(file.fileno())

    def acknowledged(self) -> set[UUID]:
        return {UUID(line) for line in self.acks_file.read_text().splitlines()}

    def marks(self) -> list[Mark]:
        """All so far but ticks, in the order in which they were written."""
        self._read()
        return self._marks

    def runs(self) -> dict[tuple[UUID, int], Run]:
        self._read()
        return self._runs

    def count(self, what: str) -> int:
        self._read()
        return self._counts[what]

    def survivors(self) -> set[int]:
        """Processes of handlers that are still there."""
        seen = {mark.pid: mark.at for mark in self.marks()}
        return {pid for pid, at in seen.items() if is_process_of(pid, at)}

    def _read(self) -> None:
        if not self.marks_file.exists():
            return
        with self.marks_file.open("rb") as file:
            file.seek(self._read_to)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read_to += len(whole + newline)
        for line in whole.decode().splitlines():
            self._add(_parsed(line))

    def _add(self, mark: Mark) -> None:
        run = self._runs.setdefault((mark.job, mark.lease), Run(mark.at, mark.at))
        run.last_seen = max(run.last_seen, mark.at)
        run.pids.add(mark.pid)
        run.came_to_its_end |= mark.what == "exit"
        self._counts[mark.what] += 1
        if mark.what != "tick":  # there are too many to keep
            self._marks.append(mark)


def is_process_of(pid: int, at: float) -> bool:
    """Whether the process that had this number at that time lives; the number may be another's."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    state, started = fields[0], int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return state not in {"Z", "X"} and started <= at


def now() -> float:
    """The clock of the marks; it also runs while the machine sleeps, and nobody sets it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _parsed(line: str) -> Mark:
    job, lease, what, pid, at = line.split()
    return Mark(UUID(job), int(lease), what, int(pid), float(at))
