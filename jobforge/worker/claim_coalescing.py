"""Coalesce the claims and settles of a busy worker: several finished jobs share one round.

With few slots and short jobs, each finished job would otherwise cause a separate claim and settle,
which cost as much as the job. The round is not delayed if enough slots are free for a claim, or if
no more jobs wait in the queues; then only a settle is due.
"""

import asyncio
from collections.abc import Callable

from jobforge.worker.slots import Slots

# A finished job waits for others for at most this fraction of its run time, capped at _LONGEST_S.
_SHARE = 0.25
_LONGEST_S = 0.01


class Pacer:
    def __init__(self, slots: Slots, claim: Callable[[], None], settle: Callable[[], None]) -> None:
        self._slots = slots
        self._claim = claim
        self._settle = settle
        self._next: asyncio.TimerHandle | None = None

    def record_ends(self, *queues: str, ran_s: float = 0.0) -> None:
        """Release the slots of jobs of these queues that have ended, and schedule the next round.

        `ran_s` is how long the job ran; 0 means that the round runs at once.
        """
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
