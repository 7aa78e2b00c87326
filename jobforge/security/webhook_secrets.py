"""Creates webhooks and their secrets, sealed before the engine stores them.

The plain text of a secret is shown to its owner once and never stored. Without the tenant's key,
the functions here build calls for a server: it has the key, and generates and seals the secret.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.calls.results import Result
from jobforge.errors import Json
from jobforge.security.webhook_signature import make_secret, read_secret, secret_text

if TYPE_CHECKING:
    from jobforge.security.vault import SealContext, TenantKey


@dataclass(frozen=True, slots=True)
class CreatedWebhook:
    """A new webhook; `secret` cannot be retrieved again."""

    id: UUID
    secret: str = field(repr=False)


def create_webhook(
    settings: Mapping[str, Json], key: "TenantKey | None", *, tenant_id: UUID | None = None
) -> Call[CreatedWebhook]:
    """Create a webhook with a new secret."""
    webhook_id, secret = generate_webhook_id(), make_secret()
    call = calls.create_webhook(
        webhook_id, settings, secret=_seal(key, webhook_id, secret), tenant_id=tenant_id
    )
    created = CreatedWebhook(webhook_id, secret_text(secret))
    return call.with_result(Result("", lambda _: created, _read_created_webhook))


def edit_webhook(
    webhook_id: UUID,
    changes: Mapping[str, Json],
    key: "TenantKey | None",
    *,
    tenant_id: UUID | None = None,
) -> Call[None]:
    """Change a webhook. `secret` in `changes` is a secret that its owner chose."""
    settings = dict(changes)
    text = settings.pop("secret", None)
    if text is None or key is None:  # without the key, the server seals the secret
        given = settings if text is None else changes
        return calls.edit_webhook(webhook_id, given, tenant_id=tenant_id)
    secret = _seal(key, webhook_id, read_secret(text))
    return calls.edit_webhook(webhook_id, settings, secret=secret, tenant_id=tenant_id)


def rotate_webhook(
    webhook_id: UUID, key: "TenantKey | None", *, overlap_s: float, tenant_id: UUID | None = None
) -> Call[str]:
    """Return a new secret; messages carry both signatures until the overlap ends."""
    secret = make_secret()
    call = calls.rotate_webhook(
        webhook_id,
        secret=_seal(key, webhook_id, secret),
        overlap_s=overlap_s,
        tenant_id=tenant_id,
    )
    text = secret_text(secret)
    return call.with_result(Result("", lambda _: text, _read_secret_text))


def open_secret(key: "TenantKey", webhook_id: UUID, sealed: bytes) -> bytes:
    """Return the plain secret; raise SealBroken."""
    return key.open(_build_seal_context(webhook_id), sealed)


def _seal(key: "TenantKey | None", webhook_id: UUID, secret: bytes) -> bytes:
    return b"" if key is None else key.seal(_build_seal_context(webhook_id), secret)


def _build_seal_context(webhook_id: UUID) -> "SealContext":
    from jobforge.security.vault import SealContext  # noqa: PLC0415 - imports cryptography only when needed

    # After a rotation, the previous secret keeps its seal, so both use the same context.
    return SealContext("webhook_endpoints", webhook_id, "secret")


def _read_created_webhook(response: Json) -> CreatedWebhook:
    return CreatedWebhook(UUID(response["id"]), response["secret"])


def _read_secret_text(response: Json) -> str:
    return str(response["secret"])


def generate_webhook_id() -> UUID:
    """Return a UUIDv7 for a new endpoint.

    The secret is sealed for this ID before the engine stores the endpoint. Like the engine's own
    IDs, it is a UUIDv7: endpoints are listed in order of their IDs.
    """
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    bits = milliseconds << 80 | random
    return UUID(int=bits & ~(0xF << 76) & ~(3 << 62) | 7 << 76 | 2 << 62)
