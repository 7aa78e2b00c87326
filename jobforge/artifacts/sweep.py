"""Deletes unused artifacts: those of removed jobs, of deleted tenants, and of jobs never created.

Between sweeps, it deletes the artifacts of tenants that are being erased (erasure.py). Every worker
with a database and every server runs this loop; the engine chooses the process that sweeps. The
engine also decides by its own clock which artifacts are unused: see unused_artifacts.
"""

import asyncio
import time
from collections.abc import Iterator
from itertools import islice

from jobforge import calls
from jobforge.artifacts.artifacts import Artifacts
from jobforge.artifacts.erasure import erase_artifacts
from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.protocols import RunCall
from jobforge.errors import ArtifactUnavailable
from jobforge.observability import logs
from jobforge.timing.backoff import add_jitter

_EVERY_S = 3600.0
_ERASE_EVERY_S = 10.0
_AT_ONCE = 500
# After this many failed deletions in a sweep, assume that the store itself fails.
_MAX_DELETE_FAILURES = 20


class ArtifactSweeper:
    """The step of a BackgroundLoop. Without a store it only confirms erasures."""

    def __init__(self, run: RunCall, artifacts: Artifacts) -> None:
        self._run = run
        self._artifacts = artifacts
        self._due_at = _next_sweep()

    async def step(self, loop: BackgroundLoop) -> None:
        await loop.wait_for_wake(add_jitter(_ERASE_EVERY_S))
        if loop.is_stopped:
            return
        await erase_artifacts(self._run, self._artifacts)
        if self._artifacts.is_configured and time.monotonic() >= self._due_at:
            self._due_at = _next_sweep()
            if await self._run(calls.start_artifact_sweep(every_s=_EVERY_S)):
                await sweep_artifacts(self._run, self._artifacts)


async def sweep_artifacts(run: RunCall, artifacts: Artifacts) -> int:
    """Sweep the whole store in batches; return the number of deleted folders."""
    folders = await asyncio.to_thread(artifacts.store.list_folders)
    swept = 0
    failures: list[ArtifactUnavailable] = []
    while batch := await asyncio.to_thread(_take_batch, folders):
        for folder in await run(calls.unused_artifacts(batch)):
            try:
                await asyncio.to_thread(artifacts.store.delete_prefix, folder)
                swept += 1
            except ArtifactUnavailable as error:  # such as a folder of another owner; continue
                failures.append(error)
                if len(failures) >= _MAX_DELETE_FAILURES:
                    raise
    if swept:
        logs.emit("artifacts.swept", folders=swept)
    if failures:
        logs.emit(
            "artifacts.kept", level="warning", folders=len(failures), error=failures[0].message
        )
    return swept


def _next_sweep() -> float:
    return time.monotonic() + add_jitter(_EVERY_S)


def _take_batch(folders: Iterator[str]) -> list[str]:
    return list(islice(folders, _AT_ONCE))
