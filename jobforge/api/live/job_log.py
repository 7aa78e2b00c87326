"""Following the log of one job until the job ends.

Log lines are no part of the live stream, which is for all jobs of a tenant: each follower asks for
those of its job. That the job has ended, the stream tells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from jobforge import calls
from jobforge.api.caller import Calling
from jobforge.api.live.feed import Check
from jobforge.api.live.sse import HEARTBEAT_S, Frames, event, heartbeat
from jobforge.api.live.subscription import Watch
from jobforge.errors import JobForgeError
from jobforge.redact import mask
from jobforge.types.job_history import JobEvent
from jobforge.types.jobs import Outcome, State

_ENDS = {State.SUCCEEDED, State.CANCELED, State.DEAD}
# After these a look at the job is worth it; progress marks come by the hundred.
_MAY_END = frozenset(Outcome) | {"cancel_requested"}
_PAGE = 1000
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 2.0
# A line may be committed after one that is younger; who asks again this far back misses none.
_LATE = timedelta(seconds=5)


@dataclass(slots=True)
class Following:
    """What one follower has been sent. `after` is the time of the last line it had before."""

    caller: Calling
    job_id: UUID
    kinds: Sequence[str]
    after: datetime | None = None

    async def frames(self, check: Check) -> Frames:
        """Lines as they are said; `end`, with the state, when the job has ended."""
        watch = Watch(self.caller.tenant_id, jobs=frozenset({self.job_id}), names=_MAY_END)
        seen: set[tuple[datetime, str, str]] = set()
        pause, silent_s = _SHORTEST_PAUSE_S, 0.0
        try:
            async with self.caller.server.hub.subscribed(watch) as subscription:
                state = await self._state()
                while True:
                    lines = [note for note in await self._notes() if _key(note) not in seen]
                    seen = {key for key in seen if self.after is None or key[0] > self.after}
                    seen.update(map(_key, lines))
                    if lines:
                        pause, silent_s = _SHORTEST_PAUSE_S, 0.0
                        yield b"".join(map(_frame, lines))
                    if state in _ENDS:
                        yield event("end", {"state": state})
                        return
                    told = await subscription.take(pause)
                    if subscription.cut is not None:
                        yield event("cut", {"reason": subscription.cut})
                        return
                    silent_s += pause
                    pause = min(_LONGEST_PAUSE_S, pause * 1.5)
                    if told or silent_s >= HEARTBEAT_S:
                        state = await self._state()
                    if silent_s >= HEARTBEAT_S:
                        await check()
                        silent_s = 0.0
                        yield heartbeat()
        except JobForgeError as error:
            yield event("cut", {"reason": error.code})

    async def _state(self) -> State:
        return (await self.caller.run(calls.get_job(self.job_id))).job.state

    async def _notes(self) -> list[JobEvent]:
        """Everything since a little before the newest line, which the next call starts from."""
        notes: list[JobEvent] = []
        after, is_full = self.after, True
        while is_full:
            call = calls.list_notes(self.job_id, after=after, kinds=self.kinds, limit=_PAGE)
            page = await self.caller.run(call)
            notes += page
            after, is_full = (page[-1].at if page else after), len(page) == _PAGE
        if notes and (self.after is None or notes[-1].at - _LATE > self.after):
            self.after = notes[-1].at - _LATE
        return notes


def _key(note: JobEvent) -> tuple[datetime, str, str]:
    return note.at, note.kind, repr(note.data)


def _frame(note: JobEvent) -> bytes:
    said = {"at": note.at, "kind": note.kind, "actor": note.actor, "data": mask(note.data)}
    return event(note.kind, said, note.at.isoformat())
