"""The heartbeat loop: periodic calls of a worker, in sequence over one connection.

It renews the leases, reaps jobs of dead workers, advances bulk operations and, in a worker without
a scheduler, creates the history's partitions in advance.
"""

import math
import os
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.outage import MonitoredLink
from jobforge.errors import Unavailable
from jobforge.observability import logs
from jobforge.observability.metrics import Meters
from jobforge.types.jobs import Heartbeat, WorkerCommand
from jobforge.worker.clock import now
from jobforge.worker.leases import LeaseTable

_REAP_S = 1.9
_REAP_LIMIT = 500
_PARTITIONS_S = 3600.0
_LARGEST_BEAT = 5_000
_OPERATE_S = 0.1
_HELD_RETRY_S = 1.0  # until the next heartbeat, after a transaction prevented a lease renewal
_STATM = Path("/proc/self/statm")


class HeartbeatLoop:
    """The heartbeat loop.

    It sends `registration` again when the database responds that the worker is not registered.
    """

    def __init__(  # noqa: PLR0913 - one parameter for each component that it uses
        self,
        worker_id: UUID,
        link: MonitoredLink,
        *,
        leases: LeaseTable,
        lease_s: float,
        heartbeat_s: float,
        registration: Call[None],
        has_operations: bool,
        has_partitions: bool,
        on_command: Callable[[WorkerCommand], None],
        meters: Meters | None = None,
    ) -> None:
        self._worker_id = worker_id
        self._link = link
        self._leases = leases
        self._lease_s = lease_s
        self._heartbeat_s = heartbeat_s
        self._reap_s = min(_REAP_S, lease_s / 2)
        self.registration = registration
        self._has_operations = has_operations
        self._on_command = on_command
        self._meters = meters
        self._heartbeat_at = now() + _add_jitter(heartbeat_s)
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
        tokens = self._leases.tokens(0 if asks_all else self._heartbeat_s / 2)
        was_held = False
        for start in range(0, max(1, len(tokens)), _LARGEST_BEAT):
            batch = tokens[start : start + _LARGEST_BEAT]
            sent_at = now()
            call = calls.heartbeat_jobs(
                self._worker_id,
                batch,
                lease_s=self._lease_s,
                memory_bytes=_read_memory_bytes(),
                clock=datetime.now(UTC),
            )
            answer = await self._request_heartbeat(call)
            was_held |= self._leases.renew(sent_at, answer.jobs)
            if answer.command is WorkerCommand.UNKNOWN:
                await self._link.run(self.registration)
            self._on_command(answer.command)
        self._was_woken = False
        self._was_held = was_held
        pause_s = min(_HELD_RETRY_S, self._heartbeat_s) if was_held else self._heartbeat_s
        self._heartbeat_at = now() + _add_jitter(pause_s)

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
        if reaped and self._meters is not None:
            self._meters.reaped += len(reaped)
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
