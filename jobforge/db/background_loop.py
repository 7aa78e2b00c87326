"""A step that is repeated until it is stopped, with backoff while the database fails.

The loop logs only the first of consecutive failures. A step must keep its pending work across
failures, because the loop calls it again.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

from jobforge.errors import Contended, Unavailable
from jobforge.observability import logs

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0


class BackgroundLoop:
    """`wake` and `stop` both end the step's `wait_for_wake` early, as does setting `wake_event`."""

    def __init__(
        self,
        name: str,
        step: Callable[["BackgroundLoop"], Awaitable[None]],
        wake_event: asyncio.Event | None = None,
    ) -> None:
        self._name = name
        self._step = step
        self._wake_event = wake_event or asyncio.Event()
        self._stopped = asyncio.Event()
        self._failures = 0

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    async def run(self) -> None:
        while not self.is_stopped:
            try:
                await self._step(self)
            except Exception as error:  # noqa: BLE001 - a failing step must not stop the worker
                self._log_first_failure(error)
                await self._recover()
            else:
                self.reset_failures()

    def stop(self) -> None:
        self._stopped.set()
        self.wake()

    def reset_failures(self) -> None:
        """Restart the backoff and log the next failure again; for a step that runs for long."""
        self._failures = 0

    def wake(self) -> None:
        self._wake_event.set()

    async def wait_for_wake(self, seconds: float | None = None) -> bool:
        """Wait for `wake` or a timeout; return True if woken, also if that was before this call."""
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
        # Ignore wake(): frequent wake-ups must not turn the backoff into a busy loop.
        try:
            async with asyncio.timeout(pause * random.uniform(0.5, 1)):  # noqa: S311 - jitter needs no secure random numbers
                await self._stopped.wait()
        except TimeoutError:
            return
