"""Being woken: what the database notifies, on a connection of its own.

It only makes things sooner. Without it, or while it is lost, polling finds everything.
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from jobforge.db.loop import Loop
from jobforge.db.protocols import Engine

_PREFIX = "jobforge:"


class Wakeups:
    """`on_job` is told the queue; `on_news` that a heartbeat would learn something."""

    def __init__(
        self,
        database: Engine,
        worker_id: UUID,
        queues: Iterable[str],
        *,
        on_job: Callable[[str], None],
        on_news: Callable[[], None],
    ) -> None:
        self._database = database
        self._queues = list(queues)
        self._own = f"{_PREFIX}worker:{worker_id}"
        self._on_job = on_job
        self._on_news = on_news

    async def step(self, loop: Loop) -> None:
        channels = [self._own, *(_PREFIX + queue for queue in self._queues)]
        async with self._database.listen(*channels) as names:
            loop.went_well()
            self._catch_up()
            async for name in names:
                if name == self._own:
                    self._on_news()
                else:
                    self._on_job(name.removeprefix(_PREFIX))

    def _catch_up(self) -> None:
        """Nobody told us anything while we were not listening."""
        self._on_news()
        for queue in self._queues:
            self._on_job(queue)
