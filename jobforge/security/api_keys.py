"""Creates, rotates and parses API keys: `jf_<lookup>_<secret>`.

The lookup identifies the row and may be shown. The secret has 256 random bits, so a plain SHA-256
of the whole text is sufficient for storage; slow hashes are for secrets that people choose.

The engine stores a key's hash, so the caller generates the key. Over HTTP, the caller is the
server: it ignores the key generated here and returns its own.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.calls.results import Result
from jobforge.errors import Json
from jobforge.types.api_keys import Role

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


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key; `text` is not stored and cannot be retrieved again."""

    id: UUID
    text: str = field(repr=False)


def create_key(
    name: str,
    role: Role,
    *,
    scopes: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    tenant_id: UUID | None = None,
) -> Call[CreatedKey]:
    """Create an API key."""
    key = generate_api_key()
    return _return_key(
        calls.create_api_key(
            name,
            role,
            lookup=key.lookup,
            hash=key.hash,
            scopes=scopes,
            expires_at=expires_at,
            tenant_id=tenant_id,
        ),
        key,
    )


def rotate_key(
    key_id: UUID,
    *,
    overlap_s: float = 0,
    ends_by: datetime | None = None,
    tenant_id: UUID | None = None,
) -> Call[CreatedKey]:
    """Create a new key with the same role and scopes; the old one expires after the overlap."""
    key = generate_api_key()
    return _return_key(
        calls.rotate_api_key(
            key_id,
            lookup=key.lookup,
            hash=key.hash,
            overlap_s=overlap_s,
            ends_by=ends_by,
            tenant_id=tenant_id,
        ),
        key,
    )


def _return_key(call: Call[UUID], key: PlaintextApiKey) -> Call[CreatedKey]:
    stored = call.result
    created = Result(
        stored.columns, lambda rows: CreatedKey(stored.from_rows(rows), key.text), _read_created_key
    )
    return call.with_result(created)


def _read_created_key(response: Json) -> CreatedKey:
    return CreatedKey(UUID(response["id"]), response["key"])
