"""Routes of the audit log."""

from typing import Annotated

from fastapi import Query

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.masking import mask_audit
from jobforge.api.pagination import Page, Paging
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.base_types import Moment, NulFreeText
from jobforge.types.audit import AuditEntry, AuditFilter

router = create_router("audit")

AuditFilterText = Annotated[NulFreeText | None, Query(max_length=200)]


@router.get("/audit", response_model=Page[AuditEntry], summary="List audit log entries")
async def list_audit(
    *,
    caller: Caller,
    page: Paging,
    actor: AuditFilterText = None,
    action: AuditFilterText = None,
    target: AuditFilterText = None,
    after: Annotated[Moment | None, Query()] = None,
    before: Annotated[Moment | None, Query()] = None,
) -> JsonResponse:
    """Returns the entries of the tenant, newest first. A super admin without a tenant gets those of
    all tenants.
    """
    which = AuditFilter(actor, action, target, after, before)
    call = calls.list_audit(which, limit=page.limit, before=page.decode_id())
    entries = mask_audit(await caller.run_for_tenant_or_all(call))
    return page.respond(entries)
