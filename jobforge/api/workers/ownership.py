"""Remote workers of this server: ownership checks and claim notifications."""

from collections import OrderedDict
from uuid import UUID

from jobforge import calls
from jobforge.api.auth.principal import Principal
from jobforge.api.workers.claim_notifier import ClaimNotifier
from jobforge.db import Database

_MOST_REMEMBERED = 10_000

WorkerOwner = tuple[UUID, str, UUID | None]


class RemoteWorkers:
    """Caches worker owners. Entries never become stale: a worker's owner never changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owners: OrderedDict[WorkerOwner, None] = OrderedDict()
        self.claim_notifier = ClaimNotifier(database)

    async def run(self) -> None:
        await self.claim_notifier.run()

    def stop(self) -> None:
        self.claim_notifier.stop()

    async def check_owner(self, principal: Principal, worker_id: UUID) -> None:
        """Raise NotFound unless this principal registered the worker for the same tenant."""
        owner = (worker_id, principal.actor, principal.tenant_id)
        if owner in self._owners:
            self._owners.move_to_end(owner)
            return
        call = calls.find_worker(worker_id, principal.actor)
        if principal.tenant_id is not None:
            call = call.for_tenant(principal.tenant_id)
        await self._database.run(call)
        self._owners[owner] = None
        while len(self._owners) > _MOST_REMEMBERED:
            self._owners.popitem(last=False)
