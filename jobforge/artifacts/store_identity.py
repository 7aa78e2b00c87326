"""Which process uses which artifact store: recorded in the database, and compared.

All processes of an installation must share one store. Each store has an id of its own, so two
processes whose ids differ do not find what the other has put.
"""

import asyncio
import os
import socket
from collections.abc import Sequence

from jobforge import calls
from jobforge.artifacts.artifacts import Artifacts
from jobforge.calls import Call
from jobforge.db.loop import BackgroundLoop
from jobforge.db.protocols import RunCall
from jobforge.observability import logs
from jobforge.types.health import StoreKind, StoreUser

# list_artifact_stores leaves out workers and servers that were silent for two hours.
_EVERY_S = 1800.0


class StoreRecorder:
    """The step of a Loop: records the store of this process, and warns when others differ."""

    def __init__(self, kind: StoreKind, artifacts: Artifacts, run: RunCall) -> None:
        self._kind = kind
        self._artifacts = artifacts
        self._run = run

    async def step(self, loop: BackgroundLoop) -> None:
        await self._run(
            await asyncio.to_thread(build_store_record_call, self._kind, self._artifacts)
        )
        _warn(await self._run(calls.list_artifact_stores()))
        await loop.wait_for_wake(_EVERY_S)


def build_store_record_call(kind: StoreKind, artifacts: Artifacts) -> Call[None]:
    """The call that records it. Raises ArtifactUnavailable when the store does not answer."""
    return calls.record_artifact_store(
        artifacts.store.identity() if artifacts.is_configured else None,
        kind,
        host=socket.gethostname(),
        pid=os.getpid(),
        location=artifacts.location,
    )


def _warn(users: Sequence[StoreUser]) -> None:
    if len({user.store_id for user in users}) > 1:
        logs.emit(
            "artifacts.stores_differ",
            level="warning",
            stores=[user.describe() for user in users],
            hint="set artifacts to one folder or bucket for all processes; see: jobforge doctor",
        )
