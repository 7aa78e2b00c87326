"""Runs maintenance: rolls up statistics, creates partitions in advance, and applies retention.

Every scheduler runs this loop; for each task, the engine chooses the scheduler that runs it now. A
task consists of one call, or of as many calls as there is work. Any call may fail or be killed; the
next scheduler to run the task continues.
"""

import os
import random
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import get_args

from jobforge import calls
from jobforge.calls.admin import RetentionKind
from jobforge.calls.statistics import MaintenanceTask
from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.protocols import RunCall
from jobforge.errors import JobForgeError
from jobforge.observability import logs
from jobforge.types.operations import SweepPosition

_SOON_S = 2.0
# Retention is not urgent: leave the first minute after a start to other work.
_LATER_S = 60.0
_MINUTE_S = 60.0
_HOUR_S = 3600.0
_STATISTICS_S = 10.0
_IDLE_STATISTICS_S = 30.0
_ADDED_AT_ONCE = 50_000
_REMOVED_AT_ONCE = 10_000
_CHECKED_AT_ONCE = 5_000
_CHECKS_PER_TURN = 20
# Share of a task's interval after which it may run again, so that a scheduler that is slightly
# early because of jitter does not skip a whole interval.
_LEAST_SHARE = 0.7


@dataclass(slots=True)
class _Task:
    """A task. `work` returns whether there was work; without work, the pause doubles."""

    name: MaintenanceTask
    work: Callable[[BackgroundLoop], Awaitable[bool]]
    every_s: float
    longest_pause_s: float
    pause_s: float
    due_at: float


class Maintenance:
    """The step of a BackgroundLoop."""

    def __init__(
        self, run: RunCall, *, history_days: int = 14, dead_days: int = 90, audit_days: int = 365
    ) -> None:
        self._run = run
        self._history_days = history_days
        self._dead_days = dead_days
        self._audit_days = audit_days
        self._checked_position: SweepPosition | None = None  # where the next run continues
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        soon = time.monotonic() + _add_jitter(_SOON_S)
        later = time.monotonic() + _add_jitter(_LATER_S)
        self._tasks = [
            _Task(
                "statistics",
                self._roll_up_statistics,
                _STATISTICS_S,
                _IDLE_STATISTICS_S,
                _SOON_S,
                soon,
            ),
            _Task("partitions", self._make_partitions, _HOUR_S, _HOUR_S, _HOUR_S, soon),
            _Task("blocked_jobs", self._free_blocked, _MINUTE_S, _MINUTE_S, _MINUTE_S, later),
            _Task("retention", self._apply_retention, _HOUR_S, _HOUR_S, _HOUR_S, later),
        ]

    async def step(self, loop: BackgroundLoop) -> None:
        task = min(self._tasks, key=lambda candidate: candidate.due_at)
        await loop.wait_for_wake(max(0.0, task.due_at - time.monotonic()))
        if loop.is_stopped:
            return
        start_call = calls.start_maintenance(
            task.name, every_s=_LEAST_SHARE * task.every_s, by=self._name
        )
        has_worked = await self._run(start_call) and await task.work(loop)
        longer_s = min(2 * task.pause_s, task.longest_pause_s)
        task.pause_s = task.every_s if has_worked else longer_s
        task.due_at = time.monotonic() + _add_jitter(task.pause_s)

    async def _roll_up_statistics(self, loop: BackgroundLoop) -> bool:
        call = calls.roll_up_statistics(limit=_ADDED_AT_ONCE)
        first = added = await self._run(call)
        while added >= _ADDED_AT_ONCE and not loop.is_stopped:
            added = await self._run(call)
        return bool(first)

    async def _make_partitions(self, _: BackgroundLoop) -> bool:
        return bool(await self._run(calls.ensure_partitions()))

    async def _free_blocked(self, loop: BackgroundLoop) -> bool:
        """Check up to 100,000 blocked jobs; the next run continues after them."""
        freed = 0
        for _ in range(_CHECKS_PER_TURN):
            position = await self._run(
                calls.free_blocked_jobs(self._checked_position, limit=_CHECKED_AT_ONCE)
            )
            freed += position.changed
            self._checked_position = None if position.is_at_end else position
            if position.is_at_end or loop.is_stopped:
                break
        if freed:
            logs.emit("jobs.freed", "warning", jobs=freed)
        return bool(freed)

    async def _apply_retention(self, loop: BackgroundLoop) -> bool:
        """Apply retention to each kind in separate transactions, so that kinds fail independently.

        History comes first: it grows fastest, and dropping its partitions is cheap.
        """
        for kind in get_args(RetentionKind):
            if loop.is_stopped:
                break
            try:
                await self._apply_retention_kind(kind, loop)
            except JobForgeError as error:
                logs.emit("history.sweep_failed", "warning", kind=kind, error=error.message)
        return True

    async def _apply_retention_kind(self, kind: RetentionKind, loop: BackgroundLoop) -> None:
        call = calls.apply_retention(
            kind,
            history_days=self._history_days,
            dead_days=self._dead_days,
            audit_days=self._audit_days,
            limit=_REMOVED_AT_ONCE,
        )
        while not loop.is_stopped:
            removed = await self._run(call)
            if removed.get("partitions", ()) is None:
                logs.emit("history.in_use", "warning")
            for failed, reason in removed.pop("failed", {}).items():
                logs.emit("history.sweep_failed", "warning", kind=failed, error=reason)
            if any(removed.values()):
                logs.emit("history.cleared", **removed)
            if kind == "partitions" or removed.get(kind, 0) < _REMOVED_AT_ONCE:
                break


def _add_jitter(seconds: float) -> float:
    return seconds * random.uniform(0.8, 1)  # noqa: S311 - jitter, not a secret
