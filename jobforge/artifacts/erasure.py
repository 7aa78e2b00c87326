"""Deletes the artifacts of tenants that are being erased, and of single jobs.

Every worker with a database, every server and `jobforge tenants delete` call it from time to time.
The engine says which tenant's turn it is; an erasure is not complete before somebody confirmed that
the files are gone. A process without a store confirms only if no process has recorded a store.
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
    found = await run(calls.next_erasure(has_store=artifacts.is_configured))
    if found is None:
        return False
    await asyncio.to_thread(artifacts.delete_tenant, found.tenant_id)
    await run(calls.confirm_erasure(found))
    logs.emit("artifacts.erased", tenant=found.tenant_id)
    return True


def delete_folders(artifacts: Artifacts, folders: Iterable[str]) -> None:
    """Deletes what `erase_job` names. Whatever is left when this is cut off, the sweep deletes."""
    if artifacts.is_configured:
        for folder in folders:
            artifacts.store.delete_prefix(folder)
