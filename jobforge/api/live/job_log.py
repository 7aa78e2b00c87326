"""Follows the log of one job until the job finishes.

Log lines are not part of the live stream, which covers all jobs of a tenant: each follower polls
the lines of its job. The stream signals the job's state changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobforge import calls
from jobforge.api.caller import CallerContext
from jobforge.api.live.client_stream import AccessCheck
from jobforge.api.live.sse import HEARTBEAT_S, SseFrames, encode_event, encode_heartbeat
from jobforge.api.live.subscription import StreamFilter
from jobforge.calls.job_log import JobLogReader
from jobforge.errors import JobForgeError
from jobforge.redact import mask
from jobforge.timing.backoff import ExponentialBackoff
from jobforge.types.job_history import JobEvent
from jobforge.types.jobs import Job, Outcome

# Only these events reload the job's state; progress events are too frequent.
_STATE_CHANGE_NAMES = frozenset(Outcome) | {"cancel_requested"}
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 2.0


@dataclass(frozen=True, slots=True)
class JobLogFollower:
    """Follows one job's log. `after` is the time of the last line that the client has."""

    caller: CallerContext
    job_id: UUID
    kinds: Sequence[str]
    after: datetime | None = None

    async def stream_frames(self, check: AccessCheck) -> SseFrames:
        """Yield log lines as they are written, then `end` with the job's final state."""
        stream_filter = StreamFilter(
            self.caller.tenant_id, jobs=frozenset({self.job_id}), names=_STATE_CHANGE_NAMES
        )
        log = JobLogReader(self.job_id, kinds=self.kinds, after=self.after)
        pauses, silent_s = ExponentialBackoff(_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S, factor=1.5), 0.0
        try:
            async with self.caller.server.hub.subscribe(stream_filter) as subscription:
                job = await self._load_job()
                while True:
                    new_notes = await self._load_new_notes(log)
                    if new_notes:
                        pauses.reset()
                        silent_s = 0.0
                        yield b"".join(map(_encode_note, new_notes))
                    if job.state.is_final:
                        yield encode_event("end", {"at": job.finished_at, "state": job.state})
                        return
                    pause = pauses.next_pause_s()
                    received = await subscription.take(pause)
                    if subscription.end_reason is not None:
                        yield encode_event("cut", {"reason": subscription.end_reason})
                        return
                    silent_s += pause
                    if received or silent_s >= HEARTBEAT_S:
                        job = await self._load_job()
                    if silent_s >= HEARTBEAT_S:
                        await check()
                        silent_s = 0.0
                        yield encode_heartbeat()
        except JobForgeError as error:
            yield encode_event("cut", {"reason": error.code})

    async def _load_job(self) -> Job:
        return (await self.caller.run(calls.get_job(self.job_id))).job

    async def _load_new_notes(self, log: JobLogReader) -> list[JobEvent]:
        new = log.take_new(await self.caller.run(log.build_call()))
        while log.has_more:
            new += log.take_new(await self.caller.run(log.build_call()))
        return new


def _encode_note(note: JobEvent) -> bytes:
    fields = {"at": note.at, "kind": note.kind, "actor": note.actor, "data": mask(note.data)}
    return encode_event(note.kind, fields, note.at.isoformat())
