"""Routes of tenants, for operators."""

from uuid import UUID, uuid4

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.pagination import Items
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.operations import OperationId
from jobforge.api.schemas.operator_settings import NewTenant, TenantId, TenantSettings
from jobforge.types.tenants import TenantInfo

router = create_router("tenants")


@router.get("/tenants", response_model=Items[TenantInfo], summary="List tenants")
async def list_tenants(caller: Caller) -> JsonResponse:
    """Returns the tenants by slug. Tenants that have jobs but no settings are not listed."""
    return JsonResponse({"items": await caller.run_as_actor(calls.list_tenants())})


@router.post("/tenants", status_code=201, response_model=TenantId, summary="Create a tenant")
async def create_tenant(body: NewTenant, caller: Caller) -> JsonResponse:
    """Omitted settings have their defaults."""
    settings = {name: value for name, value in body.given_fields().items() if name != "id"}
    tenant_id = body.id or uuid4()
    await caller.run_as_actor(calls.put_tenant(tenant_id, settings))
    return JsonResponse({"id": tenant_id}, 201)


@router.patch("/tenants/{tenant_id}", status_code=204, summary="Update a tenant")
async def put_tenant(tenant_id: UUID, body: TenantSettings, caller: Caller) -> JsonResponse:
    """Omitted fields are unchanged; null removes a setting."""
    await caller.run_as_actor(calls.put_tenant(tenant_id, body.given_fields()))
    caller.server.tenant_ids.clear()
    return JsonResponse(status=204)


@router.delete(
    "/tenants/{tenant_id}", status_code=202, response_model=OperationId, summary="Delete a tenant"
)
async def delete_tenant(tenant_id: UUID, caller: Caller) -> JsonResponse:
    """Begins to erase every row and artifact of the tenant and returns the operation's id. From now
    on every request for the tenant is refused with `tenant_erased`, and its id cannot be used
    again. Repeating the request returns the same operation.
    """
    operation_id = await caller.run_as_actor(calls.delete_tenant(tenant_id))
    caller.server.tenant_ids.clear()
    caller.server.authentication.clear_cache()
    caller.server.operations_loop.wake()
    return JsonResponse({"id": operation_id}, 202)


@router.post("/tenants/{tenant_id}/pause", status_code=204, summary="Pause a tenant")
async def pause_tenant(tenant_id: UUID, caller: Caller) -> JsonResponse:
    """Queued jobs wait; new jobs can still be created."""
    await caller.run_as_actor(calls.pause_tenant(tenant_id))
    return JsonResponse(status=204)


@router.post("/tenants/{tenant_id}/resume", status_code=204, summary="Resume a tenant")
async def resume_tenant(tenant_id: UUID, caller: Caller) -> JsonResponse:
    """Workers claim the tenant's jobs again."""
    await caller.run_as_actor(calls.resume_tenant(tenant_id))
    return JsonResponse(status=204)
