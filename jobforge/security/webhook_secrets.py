"""Generates, validates and seals webhook secrets before the engine stores an endpoint.

The plain text of a secret is shown to its owner once and never stored.
"""

import os
import time
from dataclasses import dataclass, field
from uuid import UUID

from jobforge.security.vault import SealContext, TenantKey
from jobforge.security.webhook_signature import make_secret, read_secret, secret_text


@dataclass(frozen=True, slots=True)
class NewWebhookSecret:
    """A new secret: `text` is for the owner, `sealed` for the engine."""

    text: str = field(repr=False)
    sealed: bytes


def create_webhook_secret(key: TenantKey, webhook_id: UUID) -> NewWebhookSecret:
    secret = make_secret()
    return NewWebhookSecret(secret_text(secret), key.seal(_build_seal_context(webhook_id), secret))


def seal_given_secret(key: TenantKey, webhook_id: UUID, text: str) -> bytes:
    """Seal a secret that its owner chose; raise Invalid."""
    return key.seal(_build_seal_context(webhook_id), read_secret(text))


def open_secret(key: TenantKey, webhook_id: UUID, sealed: bytes) -> bytes:
    """Return the plain secret; raise SealBroken."""
    return key.open(_build_seal_context(webhook_id), sealed)


def _build_seal_context(webhook_id: UUID) -> SealContext:
    # After a rotation, the previous secret keeps its seal, so both use the same context.
    return SealContext("webhook_endpoints", webhook_id, "secret")


def generate_webhook_id() -> UUID:
    """Return a UUIDv7 for a new endpoint.

    The secret is sealed for this ID before the engine stores the endpoint. Like the engine's own
    IDs, it is a UUIDv7: endpoints are listed in order of their IDs.
    """
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    bits = milliseconds << 80 | random
    return UUID(int=bits & ~(0xF << 76) & ~(3 << 62) | 7 << 76 | 2 << 62)
