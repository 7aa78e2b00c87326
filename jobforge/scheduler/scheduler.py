"""The scheduler's loop: looks at what is due, and sleeps until the next thing is. Maintenance goes
on beside it.

Any number may run. What it has found due it has recorded by calls that are transactions of their
own and hold the schedulers' lock for as long as they last: so one acts at a time, and one that is
frozen holds nothing. What decides that a firing is made once is not the lock but its key.
"""

import asyncio
import random

from jobforge.db.loop import BackgroundLoop
from jobforge.db.outage import MonitoredLink, Outage
from jobforge.db.protocols import Engine
from jobforge.observability import logs
from jobforge.observability.metrics import Meters
from jobforge.scheduler import firing
from jobforge.scheduler.dispatch import Dispatcher
from jobforge.scheduler.maintenance import Maintenance

CHANNEL = "jobforge_scheduler"

# While we listen, looking unasked is for what was said while we did not.
_LISTENING_POLL_S = 10.0
# After work there may be more, of which nobody is told: see announcing in emit_event.
_PAUSES_S = (0.005, 0.025, 0.125, 1.0)


class Scheduler:
    """Alone in its process, or carried by a worker. `poll_s` is how often it looks unasked; the
    days are how long history and dead jobs are kept.
    """

    def __init__(  # noqa: PLR0913 - each is a setting
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
        # Those of the worker that carries it are about the worker's own connections.
        self._meters.gauges.setdefault("reconnects", lambda: self._outage.ended_count)
        self._meters.gauges.setdefault("disconnected", lambda: self._outage.is_active)
        maintenance = Maintenance(
            database.run, history_days=history_days, dead_days=dead_days, audit_days=audit_days
        )
        self._maintenance_loop = BackgroundLoop("maintenance", maintenance.step)

    async def run(self) -> None:
        """Until it is stopped."""
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
        """After the call that is on its way."""
        self._tick_loop.stop()
        self._listen_loop.stop()
        self._maintenance_loop.stop()

    async def _tick(self, loop: BackgroundLoop) -> None:
        found = await firing.fire_due_schedules(self._link)
        self._meters.firings += found.recorded
        if found.recorded:
            logs.emit("schedules.fired", level="debug", firings=found.recorded)
        has_events = await self._dispatcher.dispatch(self._link)
        if found.has_more or has_events:
            self._pauses = iter(_PAUSES_S)
            return
        pause = next(self._pauses, _LISTENING_POLL_S if self._is_listening else self._poll_s)
        pause *= random.uniform(0.8, 1)  # noqa: S311 - no secret
        await loop.wait_for_wake(pause if found.wake_in_s is None else min(pause, found.wake_in_s))

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
