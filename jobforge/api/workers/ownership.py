"""Remote workers of this server: ownership checks and claim notifications."""

from uuid import UUID

from jobforge import calls
from jobforge.api.auth.principal import Principal
from jobforge.api.workers.claim_notifier import ClaimNotifier
from jobforge.db import Database
from jobforge.timing.ttl_cache import TtlCache

_REMEMBERED_S = 3600.0

WorkerOwner = tuple[UUID, str, UUID | None]


class RemoteWorkers:
    """Caches worker owners. Entries never become stale: a worker's owner never changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owners: TtlCache[WorkerOwner, bool] = TtlCache(_REMEMBERED_S)
        self.claim_notifier = ClaimNotifier(database)

    async def check_owner(self, principal: Principal, worker_id: UUID) -> None:
        """Raise NotFound unless this principal registered the worker for the same tenant."""
        owner = (worker_id, principal.actor, principal.tenant_id)
        if self._owners.get(owner):
            return
        call = calls.find_worker(worker_id, principal.actor)
        if principal.tenant_id is not None:
            call = call.for_tenant(principal.tenant_id)
        await self._database.run(call)
        self._owners.put(owner, value=True)
