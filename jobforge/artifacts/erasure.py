"""Deletes the artifacts of tenants that are being erased, and of single jobs.

Every worker with a database, every server and `jobforge tenants delete` call it from time to time.
The engine says which tenant's turn it is. An erasure completes only after a process has found no
file of the tenant. A process without a store confirms only if no process has recorded a store.
Deleting twice does no harm.
"""

import asyncio
from collections.abc import Iterable

from jobforge import calls
from jobforge.artifacts.artifacts import Artifacts
from jobforge.db.protocols import RunCall
from jobforge.observability import logs


async def erase_artifacts(run: RunCall, artifacts: Artifacts) -> bool:
    """Does so for the next tenant; False when none waits for it. Raises ArtifactUnavailable."""
    erasure = await run(calls.next_erasure(has_store=artifacts.is_configured))
    if erasure is None:
        return False
    found = await asyncio.to_thread(artifacts.delete_tenant, erasure.tenant_id)
    await run(calls.confirm_erasure(erasure, found=found))
    if found:
        logs.emit("artifacts.erased", tenant=erasure.tenant_id)
    return True


def delete_folders(artifacts: Artifacts, folders: Iterable[str]) -> None:
    """Delete the folders that `erase_job` returned.

    After an interruption, the sweep deletes the rest.
    """
    if artifacts.is_configured:
        for folder in folders:
            artifacts.store.delete_prefix(folder)
