"""Value of the dashboard's cookie: key lookup, expiry, session id, and a seal (an HMAC).

The cookie does not contain the key. The HMAC key derives from the API key's stored hash: every
server can verify the seal, a session needs no database row, and it ends with its API key. Signing
out stores the session id, which every server checks.

The setting `session_secret` is part of the HMAC key, so read access to the database is not enough
to forge a cookie.
"""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

_COOKIE_PATTERN = re.compile(r"([a-z0-9]{8})\.(\d{1,12})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})")
_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class CookieSession:
    """Parsed cookie; not trustworthy until the seal has been verified."""

    lookup: str
    expires: int
    id: bytes
    seal: str

    def has_valid_seal(self, key_hash: bytes, secret: str | None) -> bool:
        expected = _seal(self.lookup, self.expires, self.id, key_hash, secret)
        return hmac.compare_digest(self.seal, expected)


def write_session(
    lookup: str,
    expires: int,
    key_hash: bytes,
    secret: str | None,
    *,
    session_id: bytes | None = None,
) -> str:
    """Return the cookie's value; without `session_id`, for a new session."""
    id_bytes = session_id or secrets.token_bytes(_ID_BYTES)
    seal = _seal(lookup, expires, id_bytes, key_hash, secret)
    return f"{lookup}.{expires}.{_encode_base64(id_bytes)}.{seal}"


def read_session(text: str) -> CookieSession | None:
    match = _COOKIE_PATTERN.fullmatch(text)
    if match is None:
        return None
    return CookieSession(
        match[1], int(match[2]), base64.urlsafe_b64decode(match[3] + "=="), match[4]
    )


def _seal(lookup: str, expires: int, session_id: bytes, key_hash: bytes, secret: str | None) -> str:
    sealing = hmac.digest(key_hash, b"jobforge session\0" + (secret or "").encode(), "sha256")
    sealed = f"{lookup}.{expires}.{_encode_base64(session_id)}".encode()
    return _encode_base64(hmac.new(sealing, sealed, hashlib.sha256).digest())


def _encode_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
