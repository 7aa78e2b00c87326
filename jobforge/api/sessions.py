"""The value of the dashboard's cookie: which key it stands for, until when, and a seal.

Holds no key. The seal is made from the key's stored hash, so every server can check it, it needs no
table, and it ends with its key. `session_secret` of the configuration is mixed in: with it, reading
the database is not enough to make one.
"""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass

_TEXT = re.compile(r"([a-z0-9]{8})\.(\d{1,12})\.([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class Session:
    """What a cookie says; nothing of it holds before the seal has been compared."""

    lookup: str
    expires: int
    seal: str

    def fits(self, key_hash: bytes, secret: str | None) -> bool:
        return hmac.compare_digest(self.seal, _seal(self.lookup, self.expires, key_hash, secret))


def write_session(lookup: str, expires: int, key_hash: bytes, secret: str | None) -> str:
    return f"{lookup}.{expires}.{_seal(lookup, expires, key_hash, secret)}"


def read_session(text: str) -> Session | None:
    match = _TEXT.fullmatch(text)
    return Session(match[1], int(match[2]), match[3]) if match else None


def _seal(lookup: str, expires: int, key_hash: bytes, secret: str | None) -> str:
    sealing = hmac.digest(key_hash, b"jobforge session\0" + (secret or "").encode(), "sha256")
    seal = hmac.new(sealing, f"{lookup}.{expires}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(seal).rstrip(b"=").decode()
