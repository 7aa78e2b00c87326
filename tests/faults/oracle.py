"""What really happened in a run, recorded by producers and handlers independently of the engine.

Producers append every acknowledged job to a file and sync it before they continue. Handlers append
marks to another file: that they started, that they are running, that they finished. A single write
to a file opened for appending is not torn, and survives the death of its writer.
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
    """One mark of a handler. `at` is in seconds since the machine started."""

    job: UUID
    lease: int
    what: str
    pid: int
    at: float


@dataclass(slots=True)
class HandlerRun:
    """The run of one lease of a job, as its handler recorded it."""

    entered: float
    last_seen: float
    pids: set[int] = field(default_factory=set)
    has_finished: bool = False


@dataclass(slots=True)
class Oracle:
    """The two files of one run."""

    folder: Path
    _read_to: int = 0
    _marks: list[Mark] = field(default_factory=list)
    _runs: dict[tuple[UUID, int], HandlerRun] = field(default_factory=dict)
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
        """Return all marks so far except ticks, in the order in which they were written."""
        self._read()
        return self._marks

    def runs(self) -> dict[tuple[UUID, int], HandlerRun]:
        self._read()
        return self._runs

    def count(self, what: str) -> int:
        self._read()
        return self._counts[what]

    def survivors(self) -> set[int]:
        """Return the processes of handlers that still exist."""
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
            self._add(_parse(line))

    def _add(self, mark: Mark) -> None:
        run = self._runs.setdefault((mark.job, mark.lease), HandlerRun(mark.at, mark.at))
        run.last_seen = max(run.last_seen, mark.at)
        run.pids.add(mark.pid)
        run.has_finished |= mark.what == "exit"
        self._counts[mark.what] += 1
        if mark.what != "tick":  # there are too many to keep
            self._marks.append(mark)


def is_process_of(pid: int, at: float) -> bool:
    """Return whether the process with this PID at that time still runs; the PID may have been
    reused."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    state, started = fields[0], int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return state not in {"Z", "X"} and started <= at


def now() -> float:
    """Return the clock of the marks; it also runs while the machine sleeps, and is never set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _parse(line: str) -> Mark:
    job, lease, what, pid, at = line.split()
    return Mark(UUID(job), int(lease), what, int(pid), float(at))
