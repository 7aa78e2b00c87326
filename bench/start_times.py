"""Start times of jobs: the handlers of all processes append them to one file.

A start time is the time of day in eight bytes, so that appending it is atomic. To keep the handlers
fast, only the first of every BENCH_STEP jobs of a process is recorded. With BENCH_DELAYS, handlers
record delays in place of times, of those jobs that carry the time at which they were sent.
"""

import array
import json
import os
import struct
import time
from pathlib import Path

# No prefix JOBFORGE_: every jobforge command removes such variables from its environment.
FILE = "BENCH_START_TIMES"
STEP = "BENCH_STEP"
DELAYS = "BENCH_DELAYS"
_SIZE = 8
_OLDEST = 10**15  # greater numbers are times in microseconds, smaller ones count jobs


class _Recorder:
    def __init__(self) -> None:
        path = os.environ.get(FILE)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND) if path else None
        self._step = int(os.environ.get(STEP, "1"))
        self._until_next = 1

    def record_start(self, _: int | bytes = 0) -> None:
        self._until_next -= 1
        if self._until_next == 0:
            self._until_next = self._step
            self._write(time.time())

    def record_delay(self, sent: int | bytes = 0) -> None:
        """Record a job's delay, given the time it was sent at or the payload with that time."""
        now = time.time()
        number = json.loads(sent)["n"] if isinstance(sent, bytes) else sent
        if number > _OLDEST:
            self._write(now - number / 1e6)

    def _write(self, value: float) -> None:
        if self._file is not None:
            os.write(self._file, struct.pack("d", value))


_recorder = _Recorder()
record_start = _recorder.record_delay if os.environ.get(DELAYS) else _recorder.record_start


def sent_now() -> int:
    """Return the current time as the number of a job whose delay is recorded."""
    return int(time.time() * 1e6)


def count(path: Path) -> int:
    return path.stat().st_size // _SIZE


def read(path: Path) -> list[float]:
    times = array.array("d")
    times.frombytes(path.read_bytes())
    return times.tolist()
