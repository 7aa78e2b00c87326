"""The heartbeat loop: periodic calls of a worker, in sequence over one connection.

It renews the leases, reaps jobs of dead workers, advances bulk operations and, in a worker without
a scheduler, creates the history's partitions in advance.
"""

import math
import os
import random
from datetime import UTC, datetime
from pathlib import Path

from jobforge import calls
from jobforge.calls import Call
from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.outage import MonitoredLink
from jobforge.errors import Unavailable
from jobforge.observability import logs
from jobforge.types.jobs import Heartbeat, WorkerCommand
from jobforge.worker.clock import now
from jobforge.worker.settler import Settler
from jobforge.worker.worker_state import WorkerState

_REAP_S = 1.9
_REAP_LIMIT = 500
_PARTITIONS_S = 3600.0
_LARGEST_BEAT = 5_000
_OPERATE_S = 0.1
_HELD_RETRY_S = 1.0  # until the next heartbeat, after a transaction prevented a lease renewal
_STATM = Path("/proc/self/statm")


class HeartbeatLoop:
    def __init__(
        self,
        state: WorkerState,
        link: MonitoredLink,
        settler: Settler,
        *,
        has_operations: bool,
        has_partitions: bool,
    ) -> None:
        self._state = state
        self._leases = state.leases
        self._link = link
        self._settler = settler
        self._heartbeat_s = state.settings.heartbeat_s
        self._reap_s = min(_REAP_S, state.settings.lease_s / 2)
        self._has_operations = has_operations
        self._heartbeat_at = now() + _add_jitter(self._heartbeat_s)
        self._reap_at = now() + _add_jitter(self._reap_s)
        self._partitions_at = now() + _add_jitter(_PARTITIONS_S) if has_partitions else math.inf
        self._was_woken = False
        self._was_held = False  # whether the last heartbeat could not renew one of the leases

    async def step(self, loop: BackgroundLoop) -> None:
        due_at = min(self._heartbeat_at, self._reap_at, self._partitions_at)
        if await loop.wait_for_wake(max(0.0, due_at - now())):
            self._was_woken = True
        self._leases.stop_overdue()
        if self._was_woken or now() >= self._heartbeat_at:
            await self._send_heartbeat()
            if self._has_operations:
                await self._advance_operations()
        if now() >= self._reap_at:
            await self._reap()
        if now() >= self._partitions_at:
            await self._link.run(calls.ensure_partitions())
            self._partitions_at = now() + _add_jitter(_PARTITIONS_S)

    async def _send_heartbeat(self) -> None:
        # A wake-up may concern a job that has just started, so it includes the new leases.
        # Otherwise leases younger than half an interval wait for the next heartbeat.
        asks_all = self._was_woken or self._was_held
        age_s = 0 if asks_all else self._heartbeat_s / 2
        tokens = [*self._leases.tokens(age_s), *self._settler.tokens_to_extend(age_s)]
        was_held = False
        for start in range(0, max(1, len(tokens)), _LARGEST_BEAT):
            batch = tokens[start : start + _LARGEST_BEAT]
            sent_at = now()
            call = calls.heartbeat_jobs(
                self._state.worker_id,
                batch,
                lease_s=self._state.settings.lease_s,
                memory_bytes=_read_memory_bytes(),
                clock=datetime.now(UTC),
            )
            answer = await self._request_heartbeat(call)
            was_held |= self._leases.renew(sent_at, answer.jobs)
            if answer.command is WorkerCommand.UNKNOWN:
                await self._link.run(self._state.registration)
            self._obey(answer.command)
        self._was_woken = False
        self._was_held = was_held
        pause_s = min(_HELD_RETRY_S, self._heartbeat_s) if was_held else self._heartbeat_s
        self._heartbeat_at = now() + _add_jitter(pause_s)

    def _obey(self, command: WorkerCommand) -> None:
        if command is WorkerCommand.DRAIN and not self._state.stopping.is_set():
            self._state.stop()
        elif command is WorkerCommand.STOP:
            self._state.stop()
            self._state.stop()

    async def _request_heartbeat(self, call: Call[Heartbeat]) -> Heartbeat:
        self._leases.is_heartbeat_pending = True
        try:
            answer = await self._link.run(call)
        except Unavailable:
            raise
        except Exception:
            self._leases.is_heartbeat_pending = False
            raise
        self._leases.is_heartbeat_pending = False
        return answer

    async def _advance_operations(self) -> None:
        """Run one step of a due bulk operation, and if there was one, schedule the next soon."""
        if await self._link.run(calls.advance_operations()) is not None:
            self._heartbeat_at = min(self._heartbeat_at, now() + _OPERATE_S)

    async def _reap(self) -> None:
        reaped = await self._link.run(calls.reap_jobs(limit=_REAP_LIMIT))
        if reaped and self._state.meters is not None:
            self._state.meters.reaped += len(reaped)
        if reaped:
            logs.emit("jobs.reaped", level="warning", jobs=len(reaped))
        if len(reaped) < _REAP_LIMIT:
            self._reap_at = now() + _add_jitter(self._reap_s)


def _add_jitter(seconds: float) -> float:
    # Never longer than `seconds`: a lease spans only a few heartbeats, three by default.
    return seconds * random.uniform(0.9, 1)  # noqa: S311 - not cryptographic


def _read_memory_bytes() -> int | None:
    """Return this process's resident memory, without its jobs' processes; None except on Linux."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
