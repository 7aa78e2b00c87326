"""Writes down in a tenant's audit log that an operator acts for it.

What changes something is audited by the engine, each time. This is for all the rest: once in ten
minutes for each operator and tenant.
"""

import time
from uuid import UUID

from jobforge import calls
from jobforge.db import Database

_SILENT_S = 600.0
_MOST_REMEMBERED = 10_000


class Accesses:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: dict[tuple[str, UUID], float] = {}

    async def note(self, actor: str, tenant_id: UUID, what: str) -> None:
        """`what` is the request that it began with."""
        noted = self._noted.get((actor, tenant_id), -_SILENT_S)
        if time.monotonic() - noted < _SILENT_S:
            return
        call = calls.note_access("tenant.access", target=what[:500])
        await self._database.run(call.for_tenant(tenant_id).under("app.actor", actor))
        if len(self._noted) >= _MOST_REMEMBERED:
            self._noted.clear()
        self._noted[actor, tenant_id] = time.monotonic()
