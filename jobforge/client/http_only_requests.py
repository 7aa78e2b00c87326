"""Requests that only a server supports: its identity, trigger tests, findings of `doctor`.

Also the functions that otherwise need the tenant's key or the caller's expiry.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from jobforge.calls import Call
from jobforge.client.request import TENANT_HEADER, ApiRequest, encode_body
from jobforge.errors import Json
from jobforge.security import api_keys, webhook_secrets
from jobforge.security.api_keys import CreatedKey
from jobforge.security.webhook_secrets import CreatedWebhook
from jobforge.types.api_keys import Role
from jobforge.types.events import DeliveryOutcome, Reaction


@dataclass(frozen=True, slots=True)
class Identity:
    """How the server authenticated this key. Without a tenant, it acts for the installation."""

    actor: str
    role: Role
    tenant_id: UUID | None
    scopes: list[str]


def whoami() -> ApiRequest[Identity]:
    """Return how the server authenticated this client's key."""
    return ApiRequest("GET", "/session", _identity, is_repeatable=True)


def _identity(response: Json) -> Identity:
    tenant = response["tenant_id"]
    return Identity(
        response["actor"],
        Role(response["role"]),
        None if tenant is None else UUID(tenant),
        response["scopes"],
    )


def rotate_key(
    key_id: UUID, *, overlap_s: float = 0, tenant_id: UUID | None = None
) -> Call[CreatedKey]:
    """Create a new key with the same role and scopes; the old one expires after the overlap."""
    return api_keys.rotate_key(key_id, overlap_s=overlap_s, tenant_id=tenant_id)


def create_webhook(
    settings: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[CreatedWebhook]:
    """Create a webhook endpoint; the result has its secret."""
    return webhook_secrets.create_webhook(settings, None, tenant_id=tenant_id)


def rotate_webhook(
    webhook_id: UUID, *, overlap_s: float, tenant_id: UUID | None = None
) -> Call[str]:
    """Return a new secret; messages carry both signatures until the overlap ends."""
    return webhook_secrets.rotate_webhook(
        webhook_id, None, overlap_s=overlap_s, tenant_id=tenant_id
    )


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
        headers={} if tenant_id is None else {TENANT_HEADER: str(tenant_id)},
        is_repeatable=True,
    )


def read_findings() -> ApiRequest[list[dict[str, Json]]]:
    """Return the findings of `jobforge doctor`, run by the server."""
    return ApiRequest("GET", "/database", lambda response: response["findings"], is_repeatable=True)
