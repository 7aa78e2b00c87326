"""Requests without a Call: keys, webhooks, trigger tests, findings of `jobforge doctor`.

Over HTTP the server generates a key or a secret and returns it once; on a database the caller
generates it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from jobforge.client.request import TENANT_HEADER, ApiRequest, encode_body
from jobforge.errors import Invalid, Json
from jobforge.types.api_keys import Role
from jobforge.types.events import DeliveryOutcome, Reaction


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key; the server returns `text` only once."""

    id: UUID
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """How the server authenticated this key. Without a tenant, it acts for the installation."""

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
) -> ApiRequest[CreatedKey]:
    """Create an API key."""
    if expires_at is not None and expires_at.tzinfo is None:
        raise Invalid("expires_at must have a time zone", field="expires_at")
    body = {"name": name, "role": role, "scopes": list(scopes or ()), "expires_at": expires_at}
    return ApiRequest(
        "POST", "/keys", _read_created_key, body=encode_body(body), headers=_for_tenant(tenant_id)
    )


def rotate_key(
    key_id: UUID, *, overlap_s: float = 0, tenant_id: UUID | None = None
) -> ApiRequest[CreatedKey]:
    """Create a new key with the same role and scopes; the old one expires after the overlap."""
    return ApiRequest(
        "POST",
        f"/keys/{key_id}/rotate",
        _read_created_key,
        body=encode_body({"overlap_s": overlap_s}),
        headers=_for_tenant(tenant_id),
    )


def whoami() -> ApiRequest[Identity]:
    """Return how the server authenticated this client's key."""
    return ApiRequest("GET", "/session", _identity, is_repeatable=True)


def _for_tenant(tenant_id: UUID | None) -> dict[str, str]:
    return {} if tenant_id is None else {TENANT_HEADER: str(tenant_id)}


def _read_created_key(response: Json) -> CreatedKey:
    return CreatedKey(UUID(response["id"]), response["key"])


def _identity(response: Json) -> Identity:
    tenant = response["tenant_id"]
    return Identity(
        response["actor"],
        Role(response["role"]),
        None if tenant is None else UUID(tenant),
        response["scopes"],
    )


@dataclass(frozen=True, slots=True)
class CreatedWebhook:
    """A new webhook; the server returns `secret` only once."""

    id: UUID
    secret: str = field(repr=False)


def create_webhook(
    settings: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> ApiRequest[CreatedWebhook]:
    """Create a webhook endpoint; the result has its secret."""
    return ApiRequest(
        "POST",
        "/webhooks",
        lambda response: CreatedWebhook(UUID(response["id"]), response["secret"]),
        body=encode_body(settings),
        headers=_for_tenant(tenant_id),
    )


def rotate_webhook(
    webhook_id: UUID, *, overlap_s: float, tenant_id: UUID | None = None
) -> ApiRequest[str]:
    """Return a new secret; messages carry both signatures until the overlap ends."""
    return ApiRequest(
        "POST",
        f"/webhooks/{webhook_id}/rotate",
        _webhook_secret,
        body=encode_body({"overlap_s": overlap_s}),
        headers=_for_tenant(tenant_id),
    )


def _webhook_secret(response: Json) -> str:
    return str(response["secret"])


def try_trigger(
    trigger_id: UUID, event_id: UUID, *, tenant_id: UUID | None = None
) -> ApiRequest[Reaction]:
    """Return what the trigger would do with a past event; changes nothing."""

    def read(response: Json) -> Reaction:
        outcome = DeliveryOutcome(response["outcome"])
        return Reaction(trigger_id, outcome, response["reason"], response["job"])

    return ApiRequest(
        "POST",
        f"/triggers/{trigger_id}/test",
        read,
        body=encode_body({"event_id": event_id}),
        headers=_for_tenant(tenant_id),
        is_repeatable=True,
    )


def read_findings() -> ApiRequest[list[dict[str, Json]]]:
    """Return the findings of `jobforge doctor`, run by the server."""
    return ApiRequest("GET", "/database", lambda response: response["findings"], is_repeatable=True)
