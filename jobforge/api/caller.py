"""Caller of a request: runs engine calls as its principal and for its tenant."""

import asyncio
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar
from uuid import UUID

from fastapi import Depends
from starlette.requests import Request

from jobforge import calls
from jobforge.api.auth.principal import Principal
from jobforge.api.schemas.jobs import NewJob
from jobforge.api.state import ServerState
from jobforge.calls import Call
from jobforge.errors import Forbidden, Invalid, NotFound, TenantRequired
from jobforge.payloads.size import may_have_large_payload
from jobforge.sdk.call_context import parse_tenant_uuid
from jobforge.types.api_keys import Role
from jobforge.types.jobs import JobRequest

T = TypeVar("T")

TENANT_HEADER = "X-JobForge-Tenant"


@dataclass(frozen=True, slots=True)
class CallerContext:
    """Server, principal and trace context of one request."""

    server: ServerState
    principal: Principal
    traceparent: str | None

    @property
    def tenant_id(self) -> UUID:
        """Return the caller's tenant; raise TenantRequired if an operator named none."""
        if self.principal.tenant_id is None:
            raise TenantRequired(
                f"A tenant is required; send the header {TENANT_HEADER}: <ID or slug>"
            )
        return self.principal.tenant_id

    def to_job_request(self, job: NewJob) -> JobRequest:
        """Convert a request body to a job created by the caller; the body's traceparent wins."""
        request = job.to_job_request(self.principal.actor)
        if self.traceparent is None or request.traceparent is not None:
            return request
        return request._replace(traceparent=self.traceparent)

    @property
    def can_see_addresses(self) -> bool:
        """Whether the role may change webhooks and connectors.

        Other roles see neither URL paths nor headers, which may contain tokens.
        """
        return self.principal.role in {Role.TENANT_ADMIN, Role.SUPER_ADMIN}

    async def run(self, call: Call[T]) -> T:
        """Run a call for the caller's tenant; row-level security hides all other tenants."""
        return await self.run_as_actor(call.for_tenant(self.tenant_id))

    async def run_for_tenant_or_all(self, call: Call[T]) -> T:
        """Run a call for the caller's tenant, or across all if a super admin names none."""
        if self.principal.tenant_id is None and self.principal.role is Role.SUPER_ADMIN:
            return await self.run_as_actor(call)
        return await self.run(call)

    async def offload_large_payloads(
        self, tenant_id: UUID, jobs: list[JobRequest], body: bytes
    ) -> list[JobRequest]:
        """Return the jobs; payloads too large for a row have moved to the artifact store."""
        if not may_have_large_payload(body):
            return jobs
        return await asyncio.to_thread(self.server.artifacts.put_payloads, tenant_id, jobs)

    async def run_as_actor(self, call: Call[T]) -> T:
        """Run a call with the caller as actor but without a tenant, for data that has no tenant."""
        return await self.server.database.run(call.with_setting("app.actor", self.principal.actor))


async def apply_tenant_header(
    request: Request, server: ServerState, principal: Principal
) -> Principal:
    """Return the principal for the header's tenant; raise Forbidden if it is not the key's."""
    id_or_slug = request.headers[TENANT_HEADER]
    if principal.role is not Role.SUPER_ADMIN:
        if not await _is_own_tenant(server, id_or_slug, principal.tenant_id):
            raise Forbidden("The key belongs to another tenant")
        return principal
    tenant_id = await _find_tenant(server, id_or_slug)
    await server.access_auditor.record(
        principal.actor, tenant_id, f"{request.method} {request.url.path}"
    )
    return replace(principal, tenant_id=tenant_id)


async def _is_own_tenant(server: ServerState, id_or_slug: str, own_tenant_id: UUID | None) -> bool:
    """Whether `named` is the id or slug of the caller's own tenant.

    Another tenant's slug takes as long as a slug that does not exist: neither is cached, and the
    query runs with the caller's own tenant.
    """
    if own_tenant_id is None:
        return False
    try:
        tenant_id = _parse_tenant_id(id_or_slug)
        if tenant_id is None and server.tenant_ids.get(id_or_slug) == own_tenant_id:
            return True
        if tenant_id is None:
            found = await server.database.run(
                calls.find_tenant(id_or_slug).for_tenant(own_tenant_id)
            )
            tenant_id = server.tenant_ids.put(id_or_slug, found)
    except (Invalid, NotFound):
        return False
    return tenant_id == own_tenant_id


async def _find_tenant(server: ServerState, id_or_slug: str) -> UUID:
    tenant_id = _parse_tenant_id(id_or_slug) or server.tenant_ids.get(id_or_slug)
    if tenant_id is not None:
        return tenant_id
    try:
        found = await server.database.run(calls.find_tenant(id_or_slug))
    except NotFound as error:
        raise NotFound(f"Tenant '{id_or_slug}' not found", field=TENANT_HEADER) from error
    return server.tenant_ids.put(id_or_slug, found)


def _parse_tenant_id(id_or_slug: str) -> UUID | None:
    """Return the header's tenant id, or None for a slug. Raise Invalid."""
    if not id_or_slug or len(id_or_slug) > 200 or not id_or_slug.isprintable():
        raise Invalid(f"{TENANT_HEADER} must be a tenant ID or slug", field=TENANT_HEADER)
    return parse_tenant_uuid(id_or_slug)


async def get_caller(request: Request) -> CallerContext:
    """Return the caller that the route's guard stored in the request scope."""
    caller = request.scope["jobforge.calling"]
    assert isinstance(caller, CallerContext)  # noqa: S101 - `admit` stored it
    return caller


Caller = Annotated[CallerContext, Depends(get_caller)]
