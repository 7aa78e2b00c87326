"""Follows the log of one job until the job finishes.

Log lines are not part of the live stream, which covers all jobs of a tenant: each follower polls
the lines of its job. The stream signals the job's state changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from jobforge import calls
from jobforge.api.caller import CallerContext
from jobforge.api.live.client_stream import AccessCheck
from jobforge.api.live.sse import HEARTBEAT_S, SseFrames, encode_event, encode_heartbeat
from jobforge.api.live.subscription import StreamFilter
from jobforge.errors import JobForgeError
from jobforge.redact import mask
from jobforge.timing.backoff import ExponentialBackoff
from jobforge.types.job_history import JobEvent
from jobforge.types.jobs import Outcome, State

_FINAL_STATES = {State.SUCCEEDED, State.CANCELED, State.DEAD}
# Only these events reload the job's state; progress events are too frequent.
_STATE_CHANGE_NAMES = frozenset(Outcome) | {"cancel_requested"}
_PAGE = 1000
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 2.0
# Transactions may commit out of order, so each query starts this much earlier.
_LATE_COMMIT_WINDOW = timedelta(seconds=5)


@dataclass(slots=True)
class JobLogFollower:
    """Follows one job's log. `after` is the time of the last line already sent."""

    caller: CallerContext
    job_id: UUID
    kinds: Sequence[str]
    after: datetime | None = None

    async def stream_frames(self, check: AccessCheck) -> SseFrames:
        """Yield log lines as they are written, then `end` with the job's final state."""
        stream_filter = StreamFilter(
            self.caller.tenant_id, jobs=frozenset({self.job_id}), names=_STATE_CHANGE_NAMES
        )
        sent: set[tuple[datetime, str, str]] = set()
        pauses, silent_s = ExponentialBackoff(_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S, factor=1.5), 0.0
        try:
            async with self.caller.server.hub.subscribe(stream_filter) as subscription:
                state = await self._load_state()
                while True:
                    new_notes = [
                        note for note in await self._load_notes() if _note_key(note) not in sent
                    ]
                    sent = {key for key in sent if self.after is None or key[0] > self.after}
                    sent.update(map(_note_key, new_notes))
                    if new_notes:
                        pauses.reset()
                        silent_s = 0.0
                        yield b"".join(map(_encode_note, new_notes))
                    if state in _FINAL_STATES:
                        yield encode_event("end", {"state": state})
                        return
                    pause = pauses.next_pause_s()
                    received = await subscription.take(pause)
                    if subscription.end_reason is not None:
                        yield encode_event("cut", {"reason": subscription.end_reason})
                        return
                    silent_s += pause
                    if received or silent_s >= HEARTBEAT_S:
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
        """Return the notes after `after`, then set `after` to shortly before the newest note."""
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
    fields = {"at": note.at, "kind": note.kind, "actor": note.actor, "data": mask(note.data)}
    return encode_event(note.kind, fields, note.at.isoformat())
