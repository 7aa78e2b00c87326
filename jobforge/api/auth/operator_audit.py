"""Records in a tenant's audit log that an operator acts for the tenant.

The engine audits every change. This module covers all other requests: one entry per operator and
tenant every 10 minutes.
"""

import time
from uuid import UUID

from jobforge import calls
from jobforge.db import Database

_INTERVAL_S = 600.0
_MOST_REMEMBERED = 10_000


class AccessAuditor:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._recorded_at: dict[tuple[str, UUID], float] = {}

    async def record(self, actor: str, tenant_id: UUID, what: str) -> None:
        """Record the access unless an entry is recent; `what` is the request that started it."""
        recorded_at = self._recorded_at.get((actor, tenant_id), -_INTERVAL_S)
        if time.monotonic() - recorded_at < _INTERVAL_S:
            return
        call = calls.note_access("tenant.access", target=what[:500])
        await self._database.run(call.for_tenant(tenant_id).with_setting("app.actor", actor))
        if len(self._recorded_at) >= _MOST_REMEMBERED:
            self._recorded_at.clear()
        self._recorded_at[actor, tenant_id] = time.monotonic()
