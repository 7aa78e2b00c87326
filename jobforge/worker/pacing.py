"""When a worker that is busy claims and settles next: a few ends share a turn.

With few slots and short jobs each end would otherwise be followed by a claim and a settle of its
own, which cost as much as the job. Whoever has nothing to wait for is not held up: an end at which
no more jobs are waiting, or one that leaves enough free slots, is a turn at once.
"""

import asyncio
from collections.abc import Callable

from jobforge.worker.slots import Slots

# An end waits for others for at most that share of the time that its job ran, and never longer.
_SHARE = 0.25
_LONGEST_S = 0.01


class Pacer:
    def __init__(self, slots: Slots, claim: Callable[[], None], settle: Callable[[], None]) -> None:
        self._slots = slots
        self._claim = claim
        self._settle = settle
        self._next: asyncio.TimerHandle | None = None

    def record_ends(self, *queues: str, ran_s: float = 0.0) -> None:
        """Jobs of these queues have ended."""
        if not self._slots.release(*queues):
            self._settle()
        elif self._slots.has_room_for_more or not ran_s:
            self._claim_and_settle()
        elif self._next is None:
            wait_s = min(_SHARE * ran_s, _LONGEST_S)
            self._next = asyncio.get_running_loop().call_later(wait_s, self._claim_and_settle)

    def _claim_and_settle(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._claim()
        self._settle()
