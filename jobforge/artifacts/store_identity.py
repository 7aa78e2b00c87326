"""Records in the database which process uses which artifact store, and compares the stores.

All processes of an installation must share one store. Each store has a unique ID, so processes with
different IDs cannot read each other's artifacts.
"""

import asyncio
import os
import socket
from collections.abc import Sequence

from jobforge import calls
from jobforge.artifacts.artifacts import Artifacts
from jobforge.calls import Call
from jobforge.db.background_loop import BackgroundLoop
from jobforge.db.protocols import RunCall
from jobforge.observability import logs
from jobforge.types.diagnostics import StoreKind, StoreUser

# list_artifact_stores omits workers and servers without a record in the last two hours.
_EVERY_S = 1800.0


class StoreRecorder:
    """The step of a BackgroundLoop: records this process's store, and warns when others differ."""

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
    """Return the call that records which store is in use; raise ArtifactUnavailable without it."""
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
            hint="Use the same folder or bucket in all processes; see: jobforge doctor",
        )
