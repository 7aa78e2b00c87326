"""Marks: handlers note when they start, all processes of a run in one file.

A mark is the time of day in eight bytes; appending it is atomic. On a rival's fast path only every
so-manieth job is marked, the first one of each process included.
"""

import array
import os
import struct
import time
from pathlib import Path

FILE = "JOBFORGE_BENCH_MARKS"
STEP = "JOBFORGE_BENCH_STEP"
_SIZE = 8


class _Pen:
    def __init__(self) -> None:
        path = os.environ.get(FILE)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND) if path else None
        self._step = int(os.environ.get(STEP, "1"))
        self._until_next = 1

    def mark(self) -> None:
        self._until_next -= 1
        if self._until_next == 0:
            self._until_next = self._step
            if self._file is not None:
                os.write(self._file, struct.pack("d", time.time()))


mark = _Pen().mark


def count(path: Path) -> int:
    return path.stat().st_size // _SIZE


def read(path: Path) -> list[float]:
    times = array.array("d")
    times.frombytes(path.read_bytes())
    return times.tolist()
