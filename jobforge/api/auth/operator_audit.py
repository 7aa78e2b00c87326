"""Records in a tenant's audit log that an operator acts for the tenant.

The engine audits every change. This module covers all other requests: one entry per operator and
tenant every 10 minutes.
"""

from uuid import UUID

from jobforge import calls
from jobforge.db import Database
from jobforge.timing.ttl_cache import TtlCache

_INTERVAL_S = 600.0


class AccessAuditor:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._recorded: TtlCache[tuple[str, UUID], bool] = TtlCache(_INTERVAL_S)

    async def record(self, actor: str, tenant_id: UUID, what: str) -> None:
        """Record the access unless an entry is recent; `what` is the request that started it."""
        if self._recorded.get((actor, tenant_id)):
            return
        call = calls.note_access("tenant.access", target=what[:500])
        await self._database.run(call.for_tenant(tenant_id).with_setting("app.actor", actor))
        self._recorded.put((actor, tenant_id), value=True)
