"""Requests that are not calls: keys, webhooks, trials of triggers, findings of the doctor.

The server creates a key or a secret and shows it once; on a database the caller creates it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from jobforge.client.request import TENANT_HEADER, ApiRequest
from jobforge.client.request_encoding import encode_body
from jobforge.errors import Invalid, Json
from jobforge.types.api_keys import Role
from jobforge.types.events import DeliveryOutcome, Reaction


@dataclass(frozen=True, slots=True)
class CreatedKey:
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
) -> ApiRequest[CreatedKey]:
    if expires_at is not None and expires_at.tzinfo is None:
        raise Invalid("expires_at needs a time zone", field="expires_at")
    body = {"name": name, "role": role, "scopes": list(scopes or ()), "expires_at": expires_at}
    return ApiRequest(
        "POST", "/keys", _read_created_key, body=encode_body(body), headers=_for_tenant(tenant_id)
    )


def rotate_key(
    key_id: UUID, *, overlap_s: float = 0, tenant_id: UUID | None = None
) -> ApiRequest[CreatedKey]:
    """A new key of the same kind; the old one ends after the overlap."""
    return ApiRequest(
        "POST",
        f"/keys/{key_id}/rotate",
        _read_created_key,
        body=encode_body({"overlap_s": overlap_s}),
        headers=_for_tenant(tenant_id),
    )


def whoami() -> ApiRequest[Identity]:
    return ApiRequest("GET", "/session", _identity, is_repeatable=True)


def _for_tenant(tenant_id: UUID | None) -> dict[str, str]:
    return {} if tenant_id is None else {TENANT_HEADER: str(tenant_id)}


def _read_created_key(answer: Json) -> CreatedKey:
    return CreatedKey(UUID(answer["id"]), answer["key"])


def _identity(answer: Json) -> Identity:
    tenant = answer["tenant_id"]
    return Identity(
        answer["actor"],
        Role(answer["role"]),
        None if tenant is None else UUID(tenant),
        answer["scopes"],
    )


@dataclass(frozen=True, slots=True)
class CreatedWebhook:
    """`secret` is shown this once."""

    id: UUID
    secret: str = field(repr=False)


def create_webhook(
    settings: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> ApiRequest[CreatedWebhook]:
    return ApiRequest(
        "POST",
        "/webhooks",
        lambda answer: CreatedWebhook(UUID(answer["id"]), answer["secret"]),
        body=encode_body(settings),
        headers=_for_tenant(tenant_id),
    )


def rotate_webhook(
    webhook_id: UUID, *, overlap_s: float, tenant_id: UUID | None = None
) -> ApiRequest[str]:
    """Answers the new secret; the old one signs beside it until the overlap ends."""
    return ApiRequest(
        "POST",
        f"/webhooks/{webhook_id}/rotate",
        _webhook_secret,
        body=encode_body({"overlap_s": overlap_s}),
        headers=_for_tenant(tenant_id),
    )


def _webhook_secret(answer: Json) -> str:
    return str(answer["secret"])


def try_trigger(
    trigger_id: UUID, event_id: UUID, *, tenant_id: UUID | None = None
) -> ApiRequest[Reaction]:
    """What the trigger would make of a past event; changes nothing."""

    def read(answer: Json) -> Reaction:
        outcome = DeliveryOutcome(answer["outcome"])
        return Reaction(trigger_id, outcome, answer["reason"], answer["job"])

    return ApiRequest(
        "POST",
        f"/triggers/{trigger_id}/test",
        read,
        body=encode_body({"event_id": event_id}),
        headers=_for_tenant(tenant_id),
        is_repeatable=True,
    )


def read_findings() -> ApiRequest[list[dict[str, Json]]]:
    """What a doctor at the server's place finds."""
    return ApiRequest("GET", "/database", lambda answer: answer["findings"], is_repeatable=True)
