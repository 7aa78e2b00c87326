"""Whether the processes of a job hold more memory than it may have.

The kernel limits each process by itself (limits.py) and does not count memory that is shared. This
looks at all of a job's processes together, now and then: seldom when there is much room, every
tenth of a second when there is little.
"""

from collections.abc import Callable, Iterable

from jobforge.isolation import tree

SOONEST_S = 0.1
_LATEST_S = 1.0
# Faster than this, memory is seldom taken.
_BYTES_PER_S = 1024**3


class Watch:
    """One job's watch.

    Its processes are forks of the zygote, as a rule, and share with it what they have not changed.
    What a process holds beyond what the zygote does is the job's.
    """

    __slots__ = ("_limit", "_zygote", "due_at")

    def __init__(self, limit: int, zygote: int, due_at: float) -> None:
        self._limit = limit
        self._zygote = zygote
        self.due_at = due_at

    def is_over(self, pids: Iterable[int], now: float) -> bool:
        found = list(pids)
        room = self._room(found, tree.resident)
        if room < 0:
            room = self._room(found, tree.taken)
        self.due_at = now + min(_LATEST_S, max(SOONEST_S, room / _BYTES_PER_S))
        return room < 0

    def _room(self, pids: list[int], held: Callable[[int], int]) -> int:
        common = held(self._zygote)
        return self._limit - sum(max(0, held(pid) - common) for pid in pids)
