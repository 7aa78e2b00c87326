"""Signs and verifies webhook messages in the format of Standard Webhooks 1.0."""

import base64
import hmac
import json
import os
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from uuid import UUID

from jobforge.errors import Invalid, Json, Unauthenticated

_SECRET_BYTES = 32
_PREFIX = "whsec_"
_TOLERANCE_S = 300
_SHORTEST_KEY = 24  # bytes; with an empty key, anybody could sign
_LONGEST_TIME = 12  # digits


def make_secret() -> bytes:
    return os.urandom(_SECRET_BYTES)


def secret_text(secret: bytes) -> str:
    """Return the secret as its owner sees it once: `whsec_…`."""
    return _PREFIX + base64.b64encode(secret).decode()


def read_secret(text: str) -> bytes:
    """Return the key that a secret's text encodes; raise Invalid."""
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX))
    except ValueError:
        key = b""
    if len(key) >= _SHORTEST_KEY:
        return key
    raise Invalid(
        "A webhook secret must be whsec_ followed by at least 24 bytes in base64", field="secret"
    )


def sign_headers(
    delivery_id: UUID, body: bytes, secrets: Sequence[bytes], *, sent_at: float | None = None
) -> dict[str, str]:
    """Return the headers that authenticate a body, with one signature per secret.

    The message ID is the same for every attempt to send the message; the timestamp is the time of
    sending.
    """
    message_id = f"msg_{delivery_id.hex}"
    timestamp = str(int(time.time() if sent_at is None else sent_at))
    signed = _build_signed_content(message_id, timestamp, body)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_sign(signed, secret) for secret in secrets),
    }


def verify_webhook(
    secret: str, headers: Mapping[str, str], body: bytes | str, *, now: float | None = None
) -> dict[str, Json]:
    """Return the message. Raises Unauthenticated if its signature or timestamp is invalid.

    For webhook receivers. The timestamp must be within five minutes of now. `body` is the raw body
    of the request, before any parsing.
    """
    by_name = {name.lower(): value for name, value in headers.items()}
    message_id, sent_at, signatures = (
        _header(by_name, f"webhook-{name}") for name in ("id", "timestamp", "signature")
    )
    moment = time.time() if now is None else now
    is_number = sent_at.isascii() and sent_at.isdigit() and len(sent_at) <= _LONGEST_TIME
    if not is_number or abs(moment - int(sent_at)) > _TOLERANCE_S:
        raise Unauthenticated(
            "The message is too old, or its timestamp is in the future", field="webhook-timestamp"
        )
    content = body.encode() if isinstance(body, str) else body
    expected = _sign(
        _build_signed_content(message_id, sent_at, content), read_secret(secret)
    ).encode()
    if not any(
        hmac.compare_digest(signature.encode(), expected) for signature in signatures.split(" ")
    ):
        raise Unauthenticated(
            "The message was not signed with this secret", field="webhook-signature"
        )
    message: dict[str, Json] = json.loads(content)
    return message


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if not value:
        raise Unauthenticated(f"The message has no {name}", field=name)
    return value


def _build_signed_content(message_id: str, timestamp: str, body: bytes) -> bytes:
    return b".".join((message_id.encode(), timestamp.encode(), body))


def _sign(signed: bytes, secret: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(secret, signed, sha256)).decode()
