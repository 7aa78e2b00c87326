"""What is made of a webhook endpoint before the engine hears of it: its secret, checked and sealed.

The text of a secret is shown to its owner once and kept nowhere.
"""

import os
import time
from dataclasses import dataclass, field
from uuid import UUID

from jobforge.security.vault import SealContext, TenantKey
from jobforge.security.webhook_signature import make_secret, read_secret, secret_text


@dataclass(frozen=True, slots=True)
class NewWebhookSecret:
    """`text` is for the owner, `sealed` for the engine."""

    text: str = field(repr=False)
    sealed: bytes


def create_webhook_secret(key: TenantKey, webhook_id: UUID) -> NewWebhookSecret:
    secret = make_secret()
    return NewWebhookSecret(secret_text(secret), key.seal(_build_seal_context(webhook_id), secret))


def seal_given_secret(key: TenantKey, webhook_id: UUID, text: str) -> bytes:
    """A secret that its owner has given, sealed. Raises Invalid."""
    return key.seal(_build_seal_context(webhook_id), read_secret(text))


def open_secret(key: TenantKey, webhook_id: UUID, sealed: bytes) -> bytes:
    """Raises SealBroken."""
    return key.open(_build_seal_context(webhook_id), sealed)


def _build_seal_context(webhook_id: UUID) -> SealContext:
    # The previous secret was the secret once, so both are sealed for the same place.
    return SealContext("webhook_endpoints", webhook_id, "secret")


def generate_webhook_id() -> UUID:
    """Of a new endpoint: its secret is sealed for it before the engine hears of it.

    A UUIDv7, as the engine makes its own: endpoints are listed in the order of their ids."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    bits = milliseconds << 80 | random
    return UUID(int=bits & ~(0xF << 76) & ~(3 << 62) | 7 << 76 | 2 << 62)
