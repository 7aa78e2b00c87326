"""Pauses between repeated attempts, with jitter.

Jitter keeps processes that failed or started together from trying again together.
"""

import random

_MOST_DOUBLINGS = 100  # far above any limit, so that the power cannot overflow


class ExponentialBackoff:
    """Pauses that grow by `factor`, from `first_s` to at most `longest_s`."""

    def __init__(self, first_s: float, longest_s: float, *, factor: float = 2) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._factor = factor
        self.count = 0  # pauses since the last reset

    def next_pause_s(self) -> float:
        growth = self._factor ** min(self.count, _MOST_DOUBLINGS)
        self.count += 1
        return add_jitter(min(self._longest_s, self._first_s * growth))

    def reset(self) -> None:
        self.count = 0


def add_jitter(seconds: float) -> float:
    """Return a random time between half of `seconds` and `seconds`."""
    return seconds * random.uniform(0.5, 1)  # noqa: S311 - jitter needs no secure random numbers
