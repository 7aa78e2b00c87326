"""What is made of a webhook endpoint before the engine hears of it: its secret, checked and sealed.

The text of a secret is shown to its owner once and kept nowhere.
"""

import os
import time
from dataclasses import dataclass, field
from uuid import UUID

from jobforge.security.vault import Place, TenantKey
from jobforge.security.webhook_signature import make_secret, read_secret, secret_text


@dataclass(frozen=True, slots=True)
class NewSecret:
    """`text` is for the owner, `sealed` for the engine."""

    text: str = field(repr=False)
    sealed: bytes


def new_secret(key: TenantKey, webhook_id: UUID) -> NewSecret:
    secret = make_secret()
    return NewSecret(secret_text(secret), key.seal(_place(webhook_id), secret))


def sealed_again(key: TenantKey, webhook_id: UUID, text: str) -> bytes:
    """A secret that its owner has given, sealed. Raises Invalid."""
    return key.seal(_place(webhook_id), read_secret(text))


def opened(key: TenantKey, webhook_id: UUID, sealed: bytes) -> bytes:
    """Raises SealBroken."""
    return key.open(_place(webhook_id), sealed)


def _place(webhook_id: UUID) -> Place:
    # The previous secret was the secret once, so both are sealed for the same place.
    return Place("webhook_endpoints", webhook_id, "secret")


def make_id() -> UUID:
    """Of a new endpoint: its secret is sealed for it before the engine hears of it.

    A UUIDv7, as the engine makes its own: endpoints are listed in the order of their ids."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    bits = milliseconds << 80 | random
    return UUID(int=bits & ~(0xF << 76) & ~(3 << 62) | 7 << 76 | 2 << 62)
