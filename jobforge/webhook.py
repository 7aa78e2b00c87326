"""The words of webhooks as data: endpoints, what was sent to them, and how a message is signed.

Messages have the form of Standard Webhooks 1.0, for which receivers have libraries.
"""

import base64
import hmac
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from uuid import UUID

TEST = "webhook.test"  # the event of a test message

_SECRET_BYTES = 32
_PREFIX = "whsec_"


class WebhookEvent(StrEnum):
    """What an endpoint may want to hear of."""

    START = "start"  # an attempt begins
    SUCCESS = "success"
    FAILURE = "failure"  # an attempt failed, the last one too
    DEAD = "dead"
    END = "end"  # succeeded, canceled or dead


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"  # it is not sent any more


@dataclass(frozen=True, slots=True)
class Webhook:
    """An endpoint. Without definitions it hears of all of them."""

    id: UUID
    url: str
    description: str | None
    events: list[WebhookEvent]
    definitions: list[str] | None
    enabled: bool
    disabled_at: datetime | None
    disabled_reason: str | None
    failing_since: datetime | None
    previous_secret_until: datetime | None
    created_by: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message to an endpoint. Status, error and response are those of the last attempt."""

    id: UUID
    event: str
    state: DeliveryState
    subject_id: UUID | None  # the job that it tells of; a test tells of none
    job_id: UUID | None  # the job that sends it
    attempts: int
    status: int | None
    error: str | None
    response: str | None
    created_at: datetime
    attempted_at: datetime | None
    delivered_at: datetime | None
    next_attempt_at: datetime | None


@dataclass(frozen=True, slots=True)
class OpenDelivery:
    """What a worker needs to send a message; `secrets` are sealed."""

    url: str
    event: str
    message: str
    secrets: list[bytes]
    disabled_reason: str | None
    delivered_at: datetime | None


def make_id() -> UUID:
    """Of a new endpoint: its secret is sealed for it before the engine hears of it.

    A UUIDv7, as the engine makes its own: endpoints are listed in the order of their ids."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    bits = milliseconds << 80 | random
    return UUID(int=bits & ~(0xF << 76) & ~(3 << 62) | 7 << 76 | 2 << 62)


def make_secret() -> bytes:
    return os.urandom(_SECRET_BYTES)


def secret_text(secret: bytes) -> str:
    """As its owner sees it, once: `whsec_…`."""
    return _PREFIX + base64.b64encode(secret).decode()


def signed_headers(delivery_id: UUID, body: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    """The headers that prove who sent a body: one signature for each secret.

    The id is the same however often the message is sent; the time is that of sending.
    """
    message_id, timestamp = f"msg_{delivery_id.hex}", str(int(time.time()))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(signed, secret) for secret in secrets),
    }


def _signature(signed: bytes, secret: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(secret, signed, sha256)).decode()
