"""Operations loop: every server advances bulk operations and erasures, one step at a time.

Progress is stored in the database and each step locks its operation, so servers may start, stop or
be killed at any moment.
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
    """Background loop of a server; call `nudge` after starting an operation."""

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
        """Run one step; return whether there was work."""
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
            # Jitter keeps servers that started together from polling together.
            async with asyncio.timeout(seconds * random.uniform(0.7, 1.3)):  # noqa: S311 - jitter, not cryptography
                await self._nudged.wait()
            if not self._stopping:
                self._nudged.clear()
        except TimeoutError:
            pass
