"""The audit log: who did what."""

from typing import Annotated

from fastapi import Query

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import area
from jobforge.api.masking import masked_audit
from jobforge.api.pagination import DEFAULT_LIMIT, Cursor, Limit, Page, page, read_id
from jobforge.api.responses import Answer
from jobforge.api.schemas.base_types import Moment, Text
from jobforge.types.audit import AuditEntry, AuditFilter

router = area("audit")

Exactly = Annotated[Text | None, Query(max_length=200)]


@router.get("/audit", response_model=Page[AuditEntry], summary="List what was done")
async def list_audit(
    *,
    caller: Caller,
    actor: Exactly = None,
    action: Exactly = None,
    target: Exactly = None,
    after: Annotated[Moment | None, Query()] = None,
    before: Annotated[Moment | None, Query()] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Answer:
    """Newest first; of the tenant, or, for a super admin who names none, of all."""
    which = AuditFilter(actor, action, target, after, before)
    call = calls.list_audit(which, limit=limit, before=read_id(cursor))
    entries = masked_audit(await caller.run_for_tenant_or_all(call))
    return Answer(page(entries, limit, lambda entry: entry.id))
