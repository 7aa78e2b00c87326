"""A transaction in which the app writes its own rows and enqueues jobs together."""

from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from jobforge.sdk.call_context import TenantScope
from jobforge.sdk.engine_client import EngineClient, complete
from jobforge.sdk.enqueue_options import TenantRef

if TYPE_CHECKING:
    from jobforge.db import AsyncConnection, Connection


class Transaction:
    """A `with` or `async with` block that commits at the end and rolls back on an error.

    Within the block, its tenant is the ambient tenant.
    """

    def __init__(self, client: EngineClient, tenant: TenantRef | None) -> None:
        self._client = client
        self._tenant = tenant
        self._stack = ExitStack()
        self._async_stack = AsyncExitStack()

    def __enter__(self) -> "Connection":
        from jobforge import db  # noqa: PLC0415 - an app that only declares jobs needs no driver

        tenant_id = complete(self._client.find_tenant(self._client.blocking, self._tenant))
        with ExitStack() as stack:
            conn = stack.enter_context(self._client.own_pools().database().connection())
            stack.enter_context(db.transaction(conn, tenant_id))
            stack.enter_context(TenantScope(tenant_id))
            self._stack = stack.pop_all()
            return conn

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    async def __aenter__(self) -> "AsyncConnection":
        from jobforge import db  # noqa: PLC0415 - an app that only declares jobs needs no driver

        tenant_id = await self._client.find_tenant(self._client.awaiting, self._tenant)
        async with AsyncExitStack() as stack:
            pool = await self._client.own_pools().database_of_this_loop()
            conn = await stack.enter_async_context(pool.connection())
            await stack.enter_async_context(db.atransaction(conn, tenant_id))
            stack.enter_context(TenantScope(tenant_id))
            self._async_stack = stack.pop_all()
            return conn

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._async_stack.__aexit__(kind, error, trace)
