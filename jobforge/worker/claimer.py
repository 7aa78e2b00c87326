"""Claiming: as many jobs as there are free slots, as soon as there may be some.

A claim that was answered in full is followed by the next as soon as enough slots are free
(pacing.py). Such claims, and those after a notification, are of the queues that are known to have
more; the others are asked along now and then. After a claim that was not answered in full, all
queues are asked again after a few growing pauses, because a notification may overtake the rows it
speaks of; then only every `poll_s`. Reading an answer is left to whoever starts the jobs, so that
the database works on the next claim meanwhile.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from uuid import UUID

from jobforge import calls
from jobforge.calls import Answer, Call
from jobforge.calls.worker import is_unreadable
from jobforge.db.loop import Loop
from jobforge.db.outage import Line
from jobforge.errors import JobForgeError, NotFound
from jobforge.observability.metrics import Meters
from jobforge.types.jobs import ClaimedJob
from jobforge.worker.claim_buffer import FEW, Ready
from jobforge.worker.clock import now
from jobforge.worker.settler import Outcomes
from jobforge.worker.slots import Slots

_PAUSES_S = (0.005, 0.025, 0.125)
# While a queue has more, those that may have none are asked so often at most.
_ROUND_S = 0.05
# The first jobs after a rest are asked for in small number: they run while more are fetched. Then
# as many as start within a fraction of a lease, half of a large worker's slots.
_FIRST_CLAIM = 100
_LARGEST_CLAIM = 1_000


class Claims:
    def __init__(  # noqa: PLR0913 - the parts that it works on
        self,
        worker_id: UUID,
        line: Line,
        *,
        slots: Slots,
        outcomes: Outcomes,
        registration: Call[None],
        lease_s: float,
        poll_s: float,
        ready: Ready,
        on_ready: Callable[[], None],
        meters: Meters | None = None,
    ) -> None:
        self._worker_id = worker_id
        self._line = line
        self._slots = slots
        self._outcomes = outcomes
        self.registration = registration
        self._lease_s = lease_s
        self._poll_s = poll_s
        self._on_ready = on_ready
        self._meters = meters
        self._pauses = iter(_PAUSES_S)
        self._room = _FIRST_CLAIM
        self._round_at = 0.0
        self._is_rung = False
        self._ready = ready
        self.claimed = 0

    async def step(self, loop: Loop) -> None:
        if self._outcomes.is_crowded or self._ready.is_crowded:
            await loop.rest(_PAUSES_S[0])
            return
        limits = self._limits()
        if limits:
            is_full = await self._claim(limits)
            self._room = min(4 * self._room, _LARGEST_CLAIM) if is_full else _FIRST_CLAIM
            if is_full:
                if not self._slots.has_room_for_more:
                    # A turn rings; but not for who ended before it was known that there is more.
                    await loop.rest(_ROUND_S)
                return
            self._round_at = 0.0
        pause = next(self._pauses, self._poll_s * random.uniform(1, 1.5))  # noqa: S311 - no secret
        self._is_rung = await loop.rest(pause)
        if self._is_rung:
            self._pauses = iter(_PAUSES_S)

    def _limits(self) -> dict[str, int]:
        room = FEW if self._ready.is_flooded else self._room
        known = self._slots.limits_of_known(room)
        is_rung, self._is_rung = self._is_rung, False
        moment = now()
        if moment < self._round_at or (is_rung and known):
            return known
        self._round_at = moment + _ROUND_S
        return self._slots.limits(room)

    async def _ask(self, call: Call[list[ClaimedJob]]) -> Answer[list[ClaimedJob]]:
        """Run the claim; if one of its rows cannot be sent, run it again without such rows."""
        try:
            return await self._line.ask(call)
        except JobForgeError as error:
            if not is_unreadable(error):
                raise
        return await self._line.ask(calls.claim_readable_jobs(call))

    async def _claim(self, limits: dict[str, int]) -> bool:
        """Whether one of the queues may have more."""
        call = calls.claim_jobs(self._worker_id, limits, registered=True, lease_s=self._lease_s)
        sent_at = now()
        try:
            answer = await self._ask(call)
        except NotFound:
            # The registration is gone, for example because the database was restored.
            await self._line.run(self.registration)
            return False
        if self._meters is not None:
            self._meters.claim(answer.rows, now() - sent_at)
        if len(limits) == 1:
            taken: Mapping[str, int] = dict.fromkeys(limits, answer.rows)
        else:
            jobs = await answer.read()
            answer = Answer.known(len(jobs), jobs)
            taken = Counter(job.queue for job in jobs)
        if answer.rows:
            self._ready.add(answer, sent_at + self._lease_s)
            self.claimed += answer.rows
            self._pauses = iter(_PAUSES_S)
            self._on_ready()
        return self._slots.take(limits, taken)
