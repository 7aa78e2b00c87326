"""The text of an API key: `jf_<lookup>_<secret>`.

The lookup finds its row and may be shown. The secret has 256 random bits, so a plain SHA-256 of the
whole text is all that needs to be stored; a slow hash protects secrets that people choose.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # none that look alike
_TEXT = re.compile(r"jf_([a-z0-9]{8})_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class PlaintextApiKey:
    """A key as its holder has it."""

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
    """None when it has not the form of a key."""
    match = _TEXT.fullmatch(text)
    return PlaintextApiKey(text, match[1]) if match else None
