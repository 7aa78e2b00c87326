"""An app's own way to the engine: its pools, or the connections of a Django database.

Runs calls there; a connection that a caller gives is none of its business.
"""

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from jobforge import integrations
from jobforge.calls import Call
from jobforge.errors import Conflict
from jobforge.sdk.job_scope import refuse_inside_job
from jobforge.sdk.pools import Pools

T = TypeVar("T")
Build = Callable[[UUID], Call[T]]  # a call that names its tenant by argument


class Line:
    """Opens nothing before its first use."""

    def __init__(self, pools: Pools, django: str | None) -> None:
        self.pools = pools
        self.django = django

    def own_pools(self) -> Pools:
        """Conflict where Django's connections are used."""
        if self.django is not None:
            raise Conflict("this app is on a Django database: use django.db.transaction.atomic")
        return self.pools

    def run(self, call: Call[T]) -> T:
        """A call in a transaction of its own, on a connection of the app's own."""
        refuse_inside_job()
        if self.django is not None:
            return integrations.run(self.django, call)
        return self.pools.sync().pool.run(call)

    async def arun(self, call: Call[T]) -> T:
        refuse_inside_job()
        if self.django is not None:
            return await integrations.in_thread_of_django(integrations.run, self.django, call)
        return await (await self.pools.of_this_loop()).pool.run(call)

    def run_for(self, tenant_id: UUID, build: Build[T]) -> T:
        """A call for a tenant: one round trip, whatever the login may do."""
        return self.run_as(tenant_id, build(tenant_id))

    async def arun_for(self, tenant_id: UUID, build: Build[T]) -> T:
        return await self.arun_as(tenant_id, build(tenant_id))

    def run_as(self, tenant_id: UUID, call: Call[T]) -> T:
        """The call names its tenant; for a login that may not, the transaction has it too."""
        refuse_inside_job()
        if self.django is not None:
            return integrations.run(self.django, call)
        source = self.pools.sync()
        return source.pool.run(call if source.is_service else call.for_tenant(tenant_id))

    async def arun_as(self, tenant_id: UUID, call: Call[T]) -> T:
        refuse_inside_job()
        if self.django is not None:
            return await integrations.in_thread_of_django(integrations.run, self.django, call)
        source = await self.pools.of_this_loop()
        return await source.pool.run(call if source.is_service else call.for_tenant(tenant_id))
