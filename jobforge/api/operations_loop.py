"""Keeps bulk operations and erasures going: a loop that every server runs, one step at a time.

An operation's progress is in the database, and a step takes it with a lock, so servers may come, go
and be killed at any moment.
"""

import asyncio
import random

from jobforge import calls
from jobforge.artifacts import Artifacts
from jobforge.artifacts.erasure import erase_artifacts
from jobforge.db import Database
from jobforge.errors import JobForgeError
from jobforge.observability import logs

_IDLE_S = 2.0
_LONGEST_IDLE_S = 30.0


class OperationsLoop:
    """`nudge` is for whoever has just started an operation."""

    def __init__(self, database: Database, artifacts: Artifacts) -> None:
        self._database = database
        self._artifacts = artifacts
        self._nudged = asyncio.Event()
        self._stopping = False

    async def run(self) -> None:
        pause = _IDLE_S
        while not self._stopping:
            try:
                advanced = await self._advance()
                pause = _IDLE_S
            except JobForgeError as error:
                logs.emit("operation.stuck", "warning", error=logs.error_fields(error))
                advanced, pause = False, min(2 * pause, _LONGEST_IDLE_S)
            if not advanced:
                await self._wait(pause)

    async def _advance(self) -> bool:
        """Whether there was anything to do."""
        if await self._database.run(calls.advance_operations()) is not None:
            return True
        return await erase_artifacts(self._database.run, self._artifacts)

    def nudge(self) -> None:
        self._nudged.set()

    def stop(self) -> None:
        self._stopping = True
        self._nudged.set()

    async def _wait(self, seconds: float) -> None:
        try:
            # Servers that were started together must not ask together.
            async with asyncio.timeout(seconds * random.uniform(0.7, 1.3)):  # noqa: S311 - no secret
                await self._nudged.wait()
            if not self._stopping:
                self._nudged.clear()
        except TimeoutError:
            pass
