"""The words of webhooks as data: endpoints, what was sent to them, and how a message is signed
and verified.

Messages have the form of Standard Webhooks 1.0, for which receivers have libraries.
"""

import base64
import hmac
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from uuid import UUID

from jobforge.errors import Invalid, Json, Unauthenticated

TEST = "webhook.test"  # the event of a test message

_SECRET_BYTES = 32
_PREFIX = "whsec_"
_TOLERANCE_S = 300
_SHORTEST_KEY = 24  # bytes; without one anybody could sign
_LONGEST_TIME = 12  # digits


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


def read_secret(text: str) -> bytes:
    """The key in a secret's text. Raises Invalid."""
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX))
    except ValueError:
        key = b""
    if len(key) >= _SHORTEST_KEY:
        return key
    raise Invalid(
        "the secret of a webhook is whsec_ and at least 24 bytes in base64", field="secret"
    )


def signed_headers(
    delivery_id: UUID, body: bytes, secrets: Sequence[bytes], *, sent_at: float | None = None
) -> dict[str, str]:
    """The headers that prove who sent a body: one signature for each secret.

    The id is the same however often the message is sent; the time is that of sending.
    """
    message_id = f"msg_{delivery_id.hex}"
    timestamp = str(int(time.time() if sent_at is None else sent_at))
    signed = _signed(message_id, timestamp, body)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(signed, secret) for secret in secrets),
    }


def verify_webhook(
    secret: str, headers: Mapping[str, str], body: bytes | str, *, now: float | None = None
) -> dict[str, Json]:
    """The message, when it was sent by somebody who knows the secret, within five minutes of now;
    Unauthenticated otherwise. For receivers: `body` is what came, before anything has parsed it.
    """
    given = {name.lower(): value for name, value in headers.items()}
    message_id, sent_at, signatures = (
        _header(given, f"webhook-{name}") for name in ("id", "timestamp", "signature")
    )
    moment = time.time() if now is None else now
    is_number = sent_at.isascii() and sent_at.isdigit() and len(sent_at) <= _LONGEST_TIME
    if not is_number or abs(moment - int(sent_at)) > _TOLERANCE_S:
        raise Unauthenticated(
            "the message is too old, or comes from the future", field="webhook-timestamp"
        )
    content = body.encode() if isinstance(body, str) else body
    expected = _signature(_signed(message_id, sent_at, content), read_secret(secret)).encode()
    if not any(hmac.compare_digest(each.encode(), expected) for each in signatures.split(" ")):
        raise Unauthenticated(
            "the message was not signed with this secret", field="webhook-signature"
        )
    message: dict[str, Json] = json.loads(content)
    return message


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if not value:
        raise Unauthenticated(f"the message has no {name}", field=name)
    return value


def _signed(message_id: str, timestamp: str, body: bytes) -> bytes:
    return b".".join((message_id.encode(), timestamp.encode(), body))


def _signature(signed: bytes, secret: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(secret, signed, sha256)).decode()
