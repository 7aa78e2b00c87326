"""Listen for Postgres notifications on a separate connection.

Notifications only reduce latency. Without them, or while the connection is lost, polling finds
every job.
"""

from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.protocols import Engine
from jobforge.worker.worker_state import WorkerState

_PREFIX = "jobforge:"


class JobListener:
    """Wakes the claimer and the heartbeat.

    A queue is notified when it has a new job, and the worker when a heartbeat would return a
    command, a cancel request or a lost lease.
    """

    def __init__(self, state: WorkerState, database: Engine) -> None:
        self._state = state
        self._database = database
        self._queues = list(state.settings.queues)
        self._worker_channel = f"{_PREFIX}worker:{state.worker_id}"

    async def step(self, loop: BackgroundLoop) -> None:
        channels = [self._worker_channel, *(_PREFIX + queue for queue in self._queues)]
        async with self._database.listen(*channels) as names:
            loop.reset_failures()
            self._notify_all()
            async for name in names:
                if name == self._worker_channel:
                    self._state.wake_heartbeat.set()
                else:
                    self._mark_has_jobs(name.removeprefix(_PREFIX))

    def _notify_all(self) -> None:
        """Act as if all channels had been notified: notifications before LISTEN were missed."""
        self._state.wake_heartbeat.set()
        for queue in self._queues:
            self._mark_has_jobs(queue)

    def _mark_has_jobs(self, queue: str) -> None:
        self._state.slots.mark_has_jobs(queue)
        self._state.wake_claimer.set()
