"""The worker's monotonic clock, which also counts time while the machine is suspended (Linux)."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    return time.clock_gettime(_CLOCK)
