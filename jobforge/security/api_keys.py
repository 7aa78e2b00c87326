"""The text format of an API key: `jf_<lookup>_<secret>`.

The lookup identifies the row and may be shown. The secret has 256 random bits, so a plain SHA-256
of the whole text is sufficient for storage; slow hashes are for secrets that people choose.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # without letters that look alike
_TEXT = re.compile(r"jf_([a-z0-9]{8})_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class PlaintextApiKey:
    """An API key in plain text, as its holder has it."""

    text: str = field(repr=False)
    lookup: str

    @property
    def hash(self) -> bytes:
        return hashlib.sha256(self.text.encode()).digest()

    def matches_hash(self, stored: bytes) -> bool:
        return hmac.compare_digest(self.hash, stored)


def generate_api_key() -> PlaintextApiKey:
    lookup = "".join(secrets.choice(_LETTERS) for _ in range(8))
    return PlaintextApiKey(f"jf_{lookup}_{secrets.token_urlsafe(32)}", lookup)


def parse_api_key(text: str) -> PlaintextApiKey | None:
    """Return the key, or None for text without the format of a key."""
    match = _TEXT.fullmatch(text)
    return PlaintextApiKey(text, match[1]) if match else None
