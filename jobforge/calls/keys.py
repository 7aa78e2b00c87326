"""Calls on API keys, for the server and for operators.

With a tenant, a call applies to that tenant's keys only. Without one, creating a key creates one of
the installation; list, revoke and rotate apply to the keys of any tenant.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from jobforge.calls.call import Call, build_call, list_or_none
from jobforge.calls.results import NOTHING, many, optional, value
from jobforge.errors import Invalid
from jobforge.types.api_keys import ApiKey, FoundKey, Role


def create_api_key(
    name: str,
    role: Role,
    *,
    lookup: str,
    hash: bytes,  # noqa: A002 - the column's name
    scopes: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    tenant_id: UUID | None = None,
) -> Call[UUID]:
    """Return the key's ID. Raises Conflict if the lookup exists: create another key."""
    if expires_at is not None and expires_at.tzinfo is None:
        raise Invalid("expires_at must have a time zone", field="expires_at")
    return build_call(
        "create_api_key",
        value(UUID),
        name=name,
        role=role,
        lookup=lookup,
        hash=hash,
        scopes=list_or_none(scopes),
        expires_at=expires_at,
        tenant_id=tenant_id,
    )


def list_api_keys(
    *, limit: int = 50, before: UUID | None = None, tenant_id: UUID | None = None
) -> Call[list[ApiKey]]:
    """List keys, newest first; `before` is the last ID of the previous page."""
    return build_call(
        "list_api_keys", many(ApiKey), limit=limit, before=before, tenant_id=tenant_id
    )


def revoke_api_key(key_id: UUID, *, tenant_id: UUID | None = None) -> Call[None]:
    """Revoke an API key."""
    return build_call("revoke_api_key", NOTHING, id=key_id, tenant_id=tenant_id)


def rotate_api_key(
    key_id: UUID,
    *,
    lookup: str,
    hash: bytes,  # noqa: A002 - the column's name
    overlap_s: float = 0,
    ends_by: datetime | None = None,
    tenant_id: UUID | None = None,
) -> Call[UUID]:
    """Return the new key's ID. The old key expires after the overlap, the new one by `ends_by`."""
    return build_call(
        "rotate_api_key",
        value(UUID),
        id=key_id,
        lookup=lookup,
        hash=hash,
        overlap_s=overlap_s,
        ends_by=ends_by,
        tenant_id=tenant_id,
    )


def find_api_key(lookup: str) -> Call[FoundKey | None]:
    return build_call("find_api_key", optional(FoundKey), lookup=lookup)


def touch_api_key(key_id: UUID) -> Call[None]:
    return build_call("touch_api_key", NOTHING, id=key_id)


def end_session(session_id: bytes, expires_at: datetime) -> Call[None]:
    """Sign out: the server rejects the session cookie with this ID from now on."""
    return build_call("end_session", NOTHING, id=session_id, expires_at=expires_at)


def is_session_ended(session_id: bytes) -> Call[bool]:
    return build_call("is_session_ended", value(bool), id=session_id)
