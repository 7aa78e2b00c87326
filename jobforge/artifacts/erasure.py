"""Deletes the artifacts of tenants that are being erased, and of single jobs.

Every worker with a database, every server and `jobforge tenants delete` call it periodically. The
engine chooses the tenant, and completes an erasure only after a process has confirmed that the
files are deleted. A process without a store can confirm only if no process has recorded a store.
Deletion is idempotent.
"""

import asyncio
from collections.abc import Iterable

from jobforge import calls
from jobforge.artifacts.artifacts import Artifacts
from jobforge.db.protocols import RunCall
from jobforge.observability import logs


async def erase_artifacts(run: RunCall, artifacts: Artifacts) -> bool:
    """Delete the artifacts of the next tenant that is being erased.

    Returns False when no tenant is waiting. Raises ArtifactUnavailable.
    """
    erasure = await run(calls.next_erasure(has_store=artifacts.is_configured))
    if erasure is None:
        return False
    await asyncio.to_thread(artifacts.delete_tenant, erasure.tenant_id)
    await run(calls.confirm_erasure(erasure))
    logs.emit("artifacts.erased", tenant=erasure.tenant_id)
    return True


def delete_folders(artifacts: Artifacts, folders: Iterable[str]) -> None:
    """Delete the folders that `erase_job` returned.

    After an interruption, the sweep deletes the rest.
    """
    if artifacts.is_configured:
        for folder in folders:
            artifacts.store.delete_prefix(folder)
