"""A step that a worker repeats until it is told to stop, and that no failure ends.

After a failure it waits, longer each time, and tells the first one only. Whatever the step has
taken in hand, it must still hold when it is called again.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

from jobforge.errors import Contended, Unavailable
from jobforge.observability import logs

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0


class BackgroundLoop:
    """`ring` ends a rest of the step early; so does `stop`."""

    def __init__(self, name: str, step: Callable[["BackgroundLoop"], Awaitable[None]]) -> None:
        self._name = name
        self._step = step
        self._wake_event = asyncio.Event()
        self._stopped = asyncio.Event()
        self._failures = 0

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    async def run(self) -> None:
        while not self.is_stopped:
            try:
                await self._step(self)
            except Exception as error:  # noqa: BLE001 - a worker outlives whatever happens in a step
                self._log_first_failure(error)
                await self._recover()
            else:
                self.reset_failures()

    def stop(self) -> None:
        self._stopped.set()
        self.wake()

    def reset_failures(self) -> None:
        """The next failure is the first again; for a step that goes on for long."""
        self._failures = 0

    def wake(self) -> None:
        self._wake_event.set()

    async def wait_for_wake(self, seconds: float | None = None) -> bool:
        """Until the time is up, or somebody rings, maybe since the last rest: then it is True."""
        if not self._wake_event.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._wake_event.wait()
            except TimeoutError:
                return False
        self._wake_event.clear()
        return True

    def _log_first_failure(self, error: Exception) -> None:
        self._failures += 1
        if self._failures > 1 or isinstance(error, Unavailable | Contended):
            return
        logs.emit("worker.failed", level="error", loop=self._name, error=repr(error))

    async def _recover(self) -> None:
        pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(self._failures - 1, 10))
        # Not a rest: a bell that rings all the time must not turn this into a storm.
        try:
            async with asyncio.timeout(pause * random.uniform(0.5, 1)):  # noqa: S311 - no secret
                await self._stopped.wait()
        except TimeoutError:
            return
