"""Calls on API keys, for the server and for operators.

With a tenant, a call applies to that tenant's keys only. Without one, creating a key creates one of
the installation; list, revoke and rotate apply to the keys of any tenant.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.rows import Rows
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
        raise Invalid("expires_at needs a time zone", field="expires_at")
    return Call(
        "select jobforge.create_api_key(%s, %s, %s, %s, %s::text[], %s, %s)",
        (name, role, lookup, hash, _list_or_none(scopes), expires_at, tenant_id),
        rows.value,
    )


def list_api_keys(
    *, limit: int = 50, before: UUID | None = None, tenant_id: UUID | None = None
) -> Call[list[ApiKey]]:
    """List keys, newest first; `before` is the last ID of the previous page."""
    return Call(
        """
        select id, tenant_id, name, role, lookup, scopes, created_at, created_by, expires_at,
               revoked_at, last_used_at, rotated_from
          from jobforge.list_api_keys(%s::integer, %s, %s)
        """,
        (limit, before, tenant_id),
        _api_keys,
    )


def revoke_api_key(key_id: UUID, *, tenant_id: UUID | None = None) -> Call[None]:
    """Revoke an API key."""
    return Call("select jobforge.revoke_api_key(%s, %s)", (key_id, tenant_id), rows.nothing)


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
    return Call(
        "select jobforge.rotate_api_key(%s, %s, %s, %s::float8, %s, %s)",
        (key_id, lookup, hash, overlap_s, ends_by, tenant_id),
        rows.value,
    )


def find_api_key(lookup: str) -> Call[FoundKey | None]:
    return Call(
        """
        select id, tenant_id, role, scopes, hash, expires_at, revoked_at, last_used_at, is_live
          from jobforge.find_api_key(%s)
        """,
        (lookup,),
        _found_key,
    )


def touch_api_key(key_id: UUID) -> Call[None]:
    return Call("select jobforge.touch_api_key(%s)", (key_id,), rows.nothing)


def end_session(session_id: bytes, expires_at: datetime) -> Call[None]:
    """Sign out: the server rejects the session cookie with this ID from now on."""
    return Call("select jobforge.end_session(%s, %s)", (session_id, expires_at), rows.nothing)


def is_session_ended(session_id: bytes) -> Call[bool]:
    return Call("select jobforge.is_session_ended(%s)", (session_id,), rows.value)


def _list_or_none(scopes: Sequence[str] | None) -> list[str] | None:
    return None if scopes is None else list(scopes)


def _api_keys(rows: Rows) -> list[ApiKey]:
    return [
        ApiKey(key_id, tenant_id, name, Role(role), *others)
        for key_id, tenant_id, name, role, *others in rows
    ]


def _found_key(rows: Rows) -> FoundKey | None:
    if not rows:
        return None
    key_id, tenant_id, role, *others = rows[0]
    return FoundKey(key_id, tenant_id, Role(role), *others)
