"""Listen for Postgres notifications on a separate connection.

Notifications only reduce latency. Without them, or while the connection is lost, polling finds
every job.
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.protocols import Engine

_PREFIX = "jobforge:"


class JobListener:
    """Turns notifications into callbacks.

    It calls `on_job` with the name of a queue that has a new job, and `on_worker_notification` when
    a heartbeat would return a command, a cancel request or a lost lease.
    """

    def __init__(
        self,
        database: Engine,
        worker_id: UUID,
        queues: Iterable[str],
        *,
        on_job: Callable[[str], None],
        on_worker_notification: Callable[[], None],
    ) -> None:
        self._database = database
        self._queues = list(queues)
        self._worker_channel = f"{_PREFIX}worker:{worker_id}"
        self._on_job = on_job
        self._on_worker_notification = on_worker_notification

    async def step(self, loop: BackgroundLoop) -> None:
        channels = [self._worker_channel, *(_PREFIX + queue for queue in self._queues)]
        async with self._database.listen(*channels) as names:
            loop.reset_failures()
            self._notify_all()
            async for name in names:
                if name == self._worker_channel:
                    self._on_worker_notification()
                else:
                    self._on_job(name.removeprefix(_PREFIX))

    def _notify_all(self) -> None:
        """Act as if all channels had been notified: notifications before LISTEN were missed."""
        self._on_worker_notification()
        for queue in self._queues:
            self._on_job(queue)
