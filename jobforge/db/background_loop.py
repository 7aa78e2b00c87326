"""A step that is repeated until it is stopped, with backoff while the database fails.

The loop logs only the first of consecutive failures. A step must keep its pending work across
failures, because the loop calls it again.
"""

import asyncio
from collections.abc import Awaitable, Callable

from jobforge.errors import Contended, Unavailable
from jobforge.observability import logs
from jobforge.timing.backoff import ExponentialBackoff

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0


class BackgroundLoop:
    """`wake` and `stop` both end the step's `wait_for_wake` early, as does setting `wake_event`.

    With `failure_event`, the loop logs this event for any error. Without it, the loop logs
    `worker.failed`, and leaves the loss of the database to the worker's MonitoredLink.
    """

    def __init__(
        self,
        name: str,
        step: Callable[["BackgroundLoop"], Awaitable[None]],
        wake_event: asyncio.Event | None = None,
        *,
        failure_event: str | None = None,
    ) -> None:
        self._name = name
        self._step = step
        self._wake_event = wake_event or asyncio.Event()
        self._failure_event = failure_event
        self._stopped = asyncio.Event()
        self._backoff = ExponentialBackoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    async def run(self) -> None:
        while not self.is_stopped:
            try:
                await self._step(self)
            except Exception as error:  # noqa: BLE001 - a failing step must not stop the worker
                if self._backoff.count == 0:
                    self._log_failure(error)
                # Frequent wake-ups must not turn the backoff into a busy loop.
                await self.pause(self._backoff.next_pause_s())
            else:
                self.reset_failures()

    def stop(self) -> None:
        self._stopped.set()
        self.wake()

    def reset_failures(self) -> None:
        """Restart the backoff and log the next failure again; for a step that runs for long."""
        self._backoff.reset()

    def wake(self) -> None:
        self._wake_event.set()

    async def wait_for_wake(self, seconds: float | None = None) -> bool:
        """Wait for `wake` or a timeout; return True if woken, also if that was before this call."""
        if not self._wake_event.is_set() and not await wait_until_set(self._wake_event, seconds):
            return False
        self._wake_event.clear()
        return True

    async def pause(self, seconds: float) -> None:
        """Wait for a time or for `stop`, but not for `wake`."""
        await wait_until_set(self._stopped, seconds)

    def _log_failure(self, error: Exception) -> None:
        if self._failure_event is not None:
            logs.emit(self._failure_event, "warning", error=logs.error_fields(error))
        elif not isinstance(error, Unavailable | Contended):
            logs.emit("worker.failed", level="error", loop=self._name, error=repr(error))


async def wait_until_set(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for the event; return False after the timeout."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
