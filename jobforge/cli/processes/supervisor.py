"""Supervise several worker processes: `worker --processes N`.

Forwards stop requests to all workers, restarts a crashed worker with backoff, and exits when all
workers have exited.
"""

import asyncio
import signal
from collections.abc import Sequence

from jobforge.cli.processes.child import ChildProcess
from jobforge.observability import logs
from jobforge.process.environment import environment
from jobforge.process.interrupts import EXIT_CODE
from jobforge.timing.backoff import ExponentialBackoff

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_STABLE_AFTER_S = 60.0
_USAGE_EXIT_CODE = 2  # an error in the app or a setting, which a restart does not fix


class Supervisor:
    """Runs `size` workers. Worker n serves its metrics on port `metrics_port` + n."""

    def __init__(
        self, arguments: Sequence[str], *, size: int, metrics_port: int | None = None
    ) -> None:
        self._arguments = arguments
        self._metrics_port = metrics_port
        self._size = size
        self._stopping = asyncio.Event()
        self._running: set[ChildProcess] = set()

    async def run(self) -> int:
        """Return the highest exit code: 0 if every worker exited with 0."""
        async with asyncio.TaskGroup() as group:
            kept = [group.create_task(self._keep_running(number)) for number in range(self._size)]
        return max(task.result() for task in kept)

    def stop(self) -> None:
        """First call: drain the workers. Second call: make them release their jobs."""
        self._stopping.set()
        for process in self._running:
            process.drain()

    async def _keep_running(self, number: int) -> int:
        """Run one worker; restart it 0.25 to 30 seconds after a crash. Return the exit code."""
        arguments = list(self._arguments)
        if self._metrics_port:
            arguments += ["--metrics-port", str(self._metrics_port + number)]
        backoff = ExponentialBackoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            began = loop.time()
            code = await self._run_one(arguments)
            if code in {0, _USAGE_EXIT_CODE} or self._stopping.is_set():
                return code
            if loop.time() - began > _STABLE_AFTER_S:
                backoff.reset()
            pause = backoff.next_pause_s()
            logs.emit("worker.died", level="error", exit_code=code, next_in_s=round(pause, 2))
            await self._pause(pause)
        return 0

    async def _run_one(self, arguments: Sequence[str]) -> int:
        process = await ChildProcess.start(arguments, environment())
        self._running.add(process)
        if self._stopping.is_set():  # stopped during the start
            process.drain()
        code = await process.wait()
        self._running.discard(process)
        if code in {-signal.SIGTERM, -signal.SIGINT, EXIT_CODE} and self._stopping.is_set():
            return 0  # the signal arrived before the worker claimed jobs
        return 1 if code < 0 else code

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass
