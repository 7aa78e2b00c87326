"""Claim jobs for the free slots.

After a full claim (a queue returned as many jobs as requested), the next claim follows as soon as
enough slots are free (slots.py). Claims after a full claim or a notification ask only
the queues that are known to have more jobs; every `_FULL_CLAIM_INTERVAL_S` a claim asks all queues.
After a claim that was not full, the claimer asks again after a few growing pauses, because a
notification may overtake the rows that it announces, and then every `poll_s`. The launcher reads
the claimed rows, so that the database can execute the next claim in the meantime.
"""

import random
from collections import Counter
from collections.abc import Mapping

from jobforge import calls
from jobforge.calls import Call, PendingResult
from jobforge.calls.worker import is_unreadable
from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.outage import MonitoredLink
from jobforge.errors import JobForgeError, NotFound
from jobforge.types.jobs import ClaimedJob
from jobforge.worker.claim_buffer import SMALL_BUFFER
from jobforge.worker.clock import now
from jobforge.worker.settler import Settler
from jobforge.worker.worker_state import WorkerState

_PAUSES_S = (0.005, 0.025, 0.125)
# While one queue has more jobs, a claim asks queues that may be empty at most this often.
_FULL_CLAIM_INTERVAL_S = 0.05
# The first claim after an idle period is small, so that its jobs run while more are fetched. Full
# claims then raise the limit to _LARGEST_CLAIM, half of a large worker's slots: jobs that start
# within a fraction of a lease.
_FIRST_CLAIM = 100
_LARGEST_CLAIM = 1_000


class Claimer:
    def __init__(self, state: WorkerState, link: MonitoredLink, settler: Settler) -> None:
        self._state = state
        self._slots = state.slots
        self._buffer = state.claimed
        self._link = link
        self._settler = settler
        self._pauses = iter(_PAUSES_S)
        self._batch_limit = _FIRST_CLAIM
        self._full_claim_at = 0.0
        self._was_notified = False
        self.claimed = 0

    async def step(self, loop: BackgroundLoop) -> None:
        if self._settler.is_crowded or self._buffer.is_crowded:
            await loop.wait_for_wake(_PAUSES_S[0])
            return
        limits = self._limits()
        if limits:
            is_full = await self._claim(limits)
            self._batch_limit = (
                min(4 * self._batch_limit, _LARGEST_CLAIM) if is_full else _FIRST_CLAIM
            )
            if is_full:
                if not self._slots.has_room_for_more:
                    # The pacer wakes this loop, except for jobs that ended before this claim
                    # showed that their queue has more: hence the timeout.
                    await loop.wait_for_wake(_FULL_CLAIM_INTERVAL_S)
                return
            self._full_claim_at = 0.0
        pause = next(self._pauses, self._state.settings.poll_s * random.uniform(1, 1.5))  # noqa: S311 - not cryptographic
        self._was_notified = await loop.wait_for_wake(pause)
        if self._was_notified:
            self._pauses = iter(_PAUSES_S)

    def _limits(self) -> dict[str, int]:
        room = SMALL_BUFFER if self._buffer.is_flooded else self._batch_limit
        ready_limits = self._slots.limits_for_ready_queues(room)
        was_notified, self._was_notified = self._was_notified, False
        moment = now()
        if moment < self._full_claim_at or (was_notified and ready_limits):
            return ready_limits
        self._full_claim_at = moment + _FULL_CLAIM_INTERVAL_S
        return self._slots.limits(room)

    async def _send_claim(self, call: Call[list[ClaimedJob]]) -> PendingResult[list[ClaimedJob]]:
        """Send the claim; if Postgres cannot output one of its rows, retry without such rows."""
        try:
            return await self._link.send(call)
        except JobForgeError as error:
            if not is_unreadable(error):
                raise
        return await self._link.send(calls.claim_readable_jobs(call))

    async def _claim(self, limits: dict[str, int]) -> bool:
        """Claim jobs; return whether one of the queues may have more."""
        state, lease_s = self._state, self._state.settings.lease_s
        call = calls.claim_jobs(state.worker_id, limits, registered=True, lease_s=lease_s)
        sent_at = now()
        try:
            answer = await self._send_claim(call)
        except NotFound:
            # The worker's registration was lost, for example because the database was restored.
            await self._link.run(state.registration)
            return False
        if state.meters is not None:
            state.meters.record_claim(answer.row_count, now() - sent_at)
        if len(limits) == 1:
            claimed: Mapping[str, int] = dict.fromkeys(limits, answer.row_count)
        else:
            jobs = await answer.read()
            answer = PendingResult.from_value(len(jobs), jobs)
            claimed = Counter(job.queue for job in jobs)
        if answer.row_count:
            self._buffer.add(answer, sent_at + lease_s)
            self.claimed += answer.row_count
            self._pauses = iter(_PAUSES_S)
            state.wake_launcher.set()
        return self._slots.reserve(limits, claimed)
