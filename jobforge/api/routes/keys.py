"""Routes of API keys: a tenant's keys and, for super admins, the installation's keys."""

from datetime import datetime
from uuid import UUID

from jobforge import calls
from jobforge.api.auth.permissions import check_scopes
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.pagination import Page, Paging
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.keys import CreatedKeyView, NewKey, Rotation
from jobforge.errors import OutOfScope
from jobforge.security import api_keys
from jobforge.types.api_keys import ApiKey

router = create_router("keys")

_LAST_ID = 2**128 - 1


@router.get("/keys", response_model=Page[ApiKey], summary="List API keys")
async def list_keys(caller: Caller, page: Paging) -> JsonResponse:
    """Returns the keys, newest first, including expired and revoked ones. The texts of the keys are
    not stored.
    """
    call = calls.list_api_keys(limit=page.limit, before=page.decode_id())
    return page.respond(await caller.run_for_tenant_or_all(call))


@router.post("/keys", status_code=201, response_model=CreatedKeyView, summary="Create an API key")
async def create_key(body: NewKey, caller: Caller) -> JsonResponse:
    """Returns the key; it cannot be retrieved again. A super admin without a tenant creates keys of
    the installation: `super_admin`, or `worker` for the jobs of all tenants. A key that expires
    cannot create a key that outlives it; without `expires_at`, the new key expires with it.
    """
    check_scopes(body.scopes)
    _check_no_wider(caller, body.scopes)
    expires_at = _limit_expiry(caller, body.expires_at)
    created = await caller.run_for_tenant_or_all(
        api_keys.create_key(body.name, body.role, scopes=body.scopes, expires_at=expires_at)
    )
    return JsonResponse({"id": created.id, "key": created.text}, 201)


@router.delete("/keys/{key_id}", status_code=204, summary="Revoke an API key")
async def revoke_key(key_id: UUID, caller: Caller) -> JsonResponse:
    """This server rejects the key at once, and all other servers within a second. The key's
    sessions end, too.
    """
    await caller.run_for_tenant_or_all(calls.revoke_api_key(key_id))
    caller.server.authentication.clear_cache()
    return JsonResponse(status=204)


@router.post(
    "/keys/{key_id}/rotate",
    status_code=201,
    response_model=CreatedKeyView,
    summary="Rotate an API key",
)
async def rotate_key(key_id: UUID, caller: Caller, body: Rotation | None = None) -> JsonResponse:
    """Returns a new key with the same role and scopes; the old key expires after the overlap. A key
    that expires cannot prolong itself: the new key expires no later than the caller's key.
    """
    await _check_no_wider_than_caller(caller, key_id)
    overlap_s = body.overlap_s if body else 0
    created = await caller.run_for_tenant_or_all(
        api_keys.rotate_key(key_id, overlap_s=overlap_s, ends_by=caller.principal.expires_at)
    )
    caller.server.authentication.clear_cache()
    return JsonResponse({"id": created.id, "key": created.text}, 201)


async def _check_no_wider_than_caller(caller: Caller, key_id: UUID) -> None:
    """Check scopes as for creating a key: the caller receives the rotated key."""
    if caller.principal.scopes is None:
        return
    # The list is sorted newest first: this cursor makes the key the first on its page.
    after = UUID(int=min(key_id.int + 1, _LAST_ID))
    page_of_one = await caller.run_for_tenant_or_all(calls.list_api_keys(limit=1, before=after))
    for key in page_of_one:
        if key.id == key_id:
            _check_no_wider(caller, key.scopes)


def _check_no_wider(caller: Caller, scopes: list[str]) -> None:
    own_scopes = caller.principal.scopes
    if own_scopes is not None and (not scopes or not own_scopes.issuperset(scopes)):
        raise OutOfScope("A key cannot create a key with more permissions than it has")


def _limit_expiry(caller: Caller, requested: datetime | None) -> datetime | None:
    """Return the new key's expiry; raise OutOfScope if it would outlive the caller's key."""
    own_expiry = caller.principal.expires_at
    if own_expiry is None or requested is None:
        return requested or own_expiry
    if requested > own_expiry:
        raise OutOfScope(
            "A key cannot create a key that expires later than itself", field="expires_at"
        )
    return requested
