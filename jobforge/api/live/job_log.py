"""Following the log of one job until the job ends.

Log lines are no part of the live stream, which is for all jobs of a tenant: each follower asks for
those of its job. That the job has ended, the stream tells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from jobforge import calls
from jobforge.api.caller import CallerContext
from jobforge.api.live.feed import AccessCheck
from jobforge.api.live.sse import HEARTBEAT_S, SseFrames, encode_event, encode_heartbeat
from jobforge.api.live.subscription import StreamFilter
from jobforge.errors import JobForgeError
from jobforge.redact import mask
from jobforge.types.job_history import JobEvent
from jobforge.types.jobs import Outcome, State

_FINAL_STATES = {State.SUCCEEDED, State.CANCELED, State.DEAD}
# After these a look at the job is worth it; progress marks come by the hundred.
_STATE_CHANGE_NAMES = frozenset(Outcome) | {"cancel_requested"}
_PAGE = 1000
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 2.0
# A line may be committed after one that is younger; who asks again this far back misses none.
_LATE_COMMIT_WINDOW = timedelta(seconds=5)


@dataclass(slots=True)
class JobLogFollower:
    """What one follower has been sent. `after` is the time of the last line it had before."""

    caller: CallerContext
    job_id: UUID
    kinds: Sequence[str]
    after: datetime | None = None

    async def stream_frames(self, check: AccessCheck) -> SseFrames:
        """Lines as they are said; `end`, with the state, when the job has ended."""
        watch = StreamFilter(
            self.caller.tenant_id, jobs=frozenset({self.job_id}), names=_STATE_CHANGE_NAMES
        )
        seen: set[tuple[datetime, str, str]] = set()
        pause, silent_s = _SHORTEST_PAUSE_S, 0.0
        try:
            async with self.caller.server.hub.subscribe(watch) as subscription:
                state = await self._load_state()
                while True:
                    lines = [
                        note for note in await self._load_notes() if _note_key(note) not in seen
                    ]
                    seen = {key for key in seen if self.after is None or key[0] > self.after}
                    seen.update(map(_note_key, lines))
                    if lines:
                        pause, silent_s = _SHORTEST_PAUSE_S, 0.0
                        yield b"".join(map(_encode_note, lines))
                    if state in _FINAL_STATES:
                        yield encode_event("end", {"state": state})
                        return
                    told = await subscription.take(pause)
                    if subscription.end_reason is not None:
                        yield encode_event("cut", {"reason": subscription.end_reason})
                        return
                    silent_s += pause
                    pause = min(_LONGEST_PAUSE_S, pause * 1.5)
                    if told or silent_s >= HEARTBEAT_S:
                        state = await self._load_state()
                    if silent_s >= HEARTBEAT_S:
                        await check()
                        silent_s = 0.0
                        yield encode_heartbeat()
        except JobForgeError as error:
            yield encode_event("cut", {"reason": error.code})

    async def _load_state(self) -> State:
        return (await self.caller.run(calls.get_job(self.job_id))).job.state

    async def _load_notes(self) -> list[JobEvent]:
        """Everything since a little before the newest line, which the next call starts from."""
        notes: list[JobEvent] = []
        after, is_full = self.after, True
        while is_full:
            call = calls.list_notes(self.job_id, after=after, kinds=self.kinds, limit=_PAGE)
            page = await self.caller.run(call)
            notes += page
            after, is_full = (page[-1].at if page else after), len(page) == _PAGE
        if notes and (self.after is None or notes[-1].at - _LATE_COMMIT_WINDOW > self.after):
            self.after = notes[-1].at - _LATE_COMMIT_WINDOW
        return notes


def _note_key(note: JobEvent) -> tuple[datetime, str, str]:
    return note.at, note.kind, repr(note.data)


def _encode_note(note: JobEvent) -> bytes:
    said = {"at": note.at, "kind": note.kind, "actor": note.actor, "data": mask(note.data)}
    return encode_event(note.kind, said, note.at.isoformat())
