"""The scheduler's loops: fire due schedules, dispatch events, and run maintenance.

Any number of schedulers may run. Each recording call is a separate transaction that holds the
schedulers' lock until its end. So one scheduler acts at a time, and a frozen one holds no lock. The
key of a firing, not the lock, prevents duplicates.
"""

import asyncio
import random

from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.outage import MonitoredLink, Outage
from jobforge.db.protocols import Engine
from jobforge.observability import logs
from jobforge.observability.metrics import Meters
from jobforge.scheduler import firing
from jobforge.scheduler.dispatch import Dispatcher
from jobforge.scheduler.maintenance import Maintenance

CHANNEL = "jobforge_scheduler"

# While LISTEN works, polling only finds notifications that were missed while reconnecting.
_LISTENING_POLL_S = 10.0
# After work there may be more events without a NOTIFY: post_event omits it while recent events
# show that the schedulers were already woken.
_PAUSES_S = (0.005, 0.025, 0.125, 1.0)


class Scheduler:
    """Runs alone in a process, or within a worker.

    `poll_s` is the polling interval without notifications. The `_days` parameters are retention
    periods.
    """

    def __init__(  # noqa: PLR0913 - one parameter per setting
        self,
        database: Engine,
        *,
        poll_s: float = 1.5,
        history_days: int = 14,
        dead_days: int = 90,
        audit_days: int = 365,
        meters: Meters | None = None,
    ) -> None:
        self._database = database
        self._poll_s = poll_s
        self._outage = Outage()
        self._link = MonitoredLink(database.create_link(), self._outage)
        self._meters = meters or Meters()
        self._dispatcher = Dispatcher(self._meters)
        self._is_listening = False
        self._pauses = iter(_PAUSES_S)
        self._tick_loop = BackgroundLoop("scheduler", self._tick)
        self._listen_loop = BackgroundLoop("scheduler wakeups", self._listen)
        # Within a worker, these gauges are already set for the worker's own connections.
        self._meters.gauges.setdefault("reconnects", lambda: self._outage.ended_count)
        self._meters.gauges.setdefault("disconnected", lambda: self._outage.is_active)
        maintenance = Maintenance(
            database.run, history_days=history_days, dead_days=dead_days, audit_days=audit_days
        )
        self._maintenance_loop = BackgroundLoop("maintenance", maintenance.step)

    async def run(self) -> None:
        """Run until `stop` is called."""
        try:
            async with asyncio.TaskGroup() as group:
                others = [
                    group.create_task(loop.run())
                    for loop in (self._listen_loop, self._maintenance_loop)
                ]
                await self._tick_loop.run()
                for other in others:
                    other.cancel()
        finally:
            await self._link.close()

    def stop(self) -> None:
        """Stop after the call in progress."""
        self._tick_loop.stop()
        self._listen_loop.stop()
        self._maintenance_loop.stop()

    async def _tick(self, loop: BackgroundLoop) -> None:
        result = await firing.fire_due_schedules(self._link)
        self._meters.firings += result.recorded
        if result.recorded:
            logs.emit("schedules.fired", level="debug", firings=result.recorded)
        has_events = await self._dispatcher.dispatch(self._link)
        if result.has_more or has_events:
            self._pauses = iter(_PAUSES_S)
            return
        pause = next(self._pauses, _LISTENING_POLL_S if self._is_listening else self._poll_s)
        pause *= random.uniform(0.8, 1)  # noqa: S311 - jitter, not a secret
        await loop.wait_for_wake(
            pause if result.wake_in_s is None else min(pause, result.wake_in_s)
        )

    async def _listen(self, loop: BackgroundLoop) -> None:
        if not self._database.can_listen:
            await loop.wait_for_wake()
            return
        try:
            async with self._database.listen(CHANNEL) as names:
                self._is_listening = True
                loop.reset_failures()
                self._tick_loop.wake()
                async for _ in names:
                    self._tick_loop.wake()
        finally:
            self._is_listening = False
