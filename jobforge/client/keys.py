"""Keys over HTTP: the server makes their text, and tells it once; and who a key is.

On a database whoever makes a key makes its text. So these are no calls, but requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from jobforge.client.params import written
from jobforge.client.request import TENANT_HEADER, Request
from jobforge.errors import Invalid, Json
from jobforge.types.api_keys import Role


@dataclass(frozen=True, slots=True)
class MadeKey:
    """`text` is shown this once."""

    id: UUID
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the server takes us for. Without a tenant we act for the installation."""

    actor: str
    role: Role
    tenant_id: UUID | None
    scopes: list[str]


def create_key(
    name: str,
    role: Role,
    *,
    scopes: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    tenant_id: UUID | None = None,
) -> Request[MadeKey]:
    if expires_at is not None and expires_at.tzinfo is None:
        raise Invalid("expires_at needs a time zone", field="expires_at")
    body = {"name": name, "role": role, "scopes": list(scopes or ()), "expires_at": expires_at}
    return Request("POST", "/keys", _made, body=written(body), headers=_for_tenant(tenant_id))


def rotate_key(
    key_id: UUID, *, overlap_s: float = 0, tenant_id: UUID | None = None
) -> Request[MadeKey]:
    """A new key of the same kind; the old one ends after the overlap."""
    return Request(
        "POST",
        f"/keys/{key_id}/rotate",
        _made,
        body=written({"overlap_s": overlap_s}),
        headers=_for_tenant(tenant_id),
    )


def whoami() -> Request[Identity]:
    return Request("GET", "/session", _identity, is_repeatable=True)


def _for_tenant(tenant_id: UUID | None) -> dict[str, str]:
    return {} if tenant_id is None else {TENANT_HEADER: str(tenant_id)}


def _made(answer: Json) -> MadeKey:
    return MadeKey(UUID(answer["id"]), answer["key"])


def _identity(answer: Json) -> Identity:
    tenant = answer["tenant_id"]
    return Identity(
        answer["actor"],
        Role(answer["role"]),
        None if tenant is None else UUID(tenant),
        answer["scopes"],
    )
