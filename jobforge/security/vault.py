"""Envelope encryption of secrets at rest: the installation's key wraps one key per tenant.

    secret_key (setting)  ──wraps──►  tenant's key (tenant_keys)  ──seals──►  a secret in a row

A sealed value is bound to its tenant, table, row and column; elsewhere it does not open. A dump of
the database contains only sealed bytes. `jobforge secrets rotate` replaces the installation's key
without changing any sealed secret.
"""

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from jobforge import calls
from jobforge.calls import Call
from jobforge.config import Config
from jobforge.errors import ConfigError, SealBroken
from jobforge.types.connectors import WrappedKey

_NONCE = 12
_VERSION = b"\x01"


class SealContext(NamedTuple):
    """The location that a sealed value is bound to."""

    table: str
    row: UUID
    column: str


class TenantKey:
    """Seals and opens the secrets of one tenant."""

    __slots__ = ("_cipher", "_tenant_id")

    def __init__(self, tenant_id: UUID, key: bytes) -> None:
        self._tenant_id = tenant_id
        self._cipher = AESGCM(key)

    def seal(self, context: SealContext, plain: bytes) -> bytes:
        nonce = secrets.token_bytes(_NONCE)
        return (
            _VERSION
            + nonce
            + self._cipher.encrypt(nonce, plain, self._build_associated_data(context))
        )

    def open(self, context: SealContext, sealed: bytes) -> bytes:
        """Return the plain value; raise SealBroken."""
        version, nonce, body = sealed[:1], sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        if version != _VERSION or len(nonce) != _NONCE:
            raise SealBroken
        try:
            return self._cipher.decrypt(nonce, body, self._build_associated_data(context))
        except InvalidTag:
            raise SealBroken from None

    def _build_associated_data(self, context: SealContext) -> bytes:
        return "|".join(
            (str(self._tenant_id), context.table, str(context.row), context.column)
        ).encode()


@dataclass(frozen=True, slots=True, repr=False)
class _MasterKey:
    """A key of the installation; `id` identifies the key that wrapped a tenant's key."""

    id: str
    cipher: AESGCM


class Vault:
    """The installation's keys: the current one wraps and unwraps, the previous one only unwraps."""

    def __init__(self, secret_key: str, previous: str | None = None) -> None:
        self._current = _derive_master_key(secret_key)
        keys = (
            [self._current] if previous is None else [_derive_master_key(previous), self._current]
        )
        self._keys = {key.id: key for key in keys}

    @property
    def key_id(self) -> str:
        """The ID of the current key."""
        return self._current.id

    def build_tenant_key_call(self, tenant_id: UUID) -> Call[TenantKey]:
        """Return the call that gets the tenant's key, or creates the key on first use."""
        new_key = self._wrap(tenant_id, AESGCM.generate_key(256))
        call = calls.keep_tenant_key(new_key, tenant_id=tenant_id).for_tenant(tenant_id)
        return call.map_result(
            lambda stored_key: TenantKey(tenant_id, self._unwrap(tenant_id, stored_key))
        )

    def rewrap(self, tenant_id: UUID, stored_key: WrappedKey) -> WrappedKey:
        """Return the tenant's key, wrapped by the current key of the installation."""
        return self._wrap(tenant_id, self._unwrap(tenant_id, stored_key))

    def _wrap(self, tenant_id: UUID, key: bytes) -> WrappedKey:
        nonce = secrets.token_bytes(_NONCE)
        sealed = self._current.cipher.encrypt(nonce, key, _build_key_associated_data(tenant_id))
        return WrappedKey(self._current.id, nonce + sealed)

    def _unwrap(self, tenant_id: UUID, stored_key: WrappedKey) -> bytes:
        key = self._keys.get(stored_key.key_id)
        if key is None:
            raise ConfigError(
                f"The secrets are sealed with the key {stored_key.key_id}, which is not set",
                field="secret_key",
                hint="Set the key as secret_key, or as secret_key_previous during a rotation",
            )
        nonce, body = stored_key.wrapped[:_NONCE], stored_key.wrapped[_NONCE:]
        try:
            return key.cipher.decrypt(nonce, body, _build_key_associated_data(tenant_id))
        except InvalidTag:
            raise SealBroken("The tenant's key cannot be unwrapped") from None


def open_vault(config: Config) -> Vault:
    """Open the vault with secret_key, or with the key that `jobforge dev` created in data_dir."""
    key = config.secret_key or _read_dev_key(dev_key_path(config))
    if key is None:
        raise ConfigError(
            "secret_key is required to seal and open secrets",
            field="secret_key",
            hint="Create a key with 'jobforge secrets key', and set JOBFORGE_SECRET_KEY or _FILE",
        )
    return Vault(key, config.secret_key_previous)


def make_secret_key() -> str:
    """Generate a key for an installation."""
    return secrets.token_urlsafe(32)


def dev_key_path(config: Config) -> Path:
    return config.data_dir / "secret_key"


def ensure_dev_key(config: Config) -> None:
    """Create the key of the data folder for `jobforge dev`, unless a key exists."""
    path = dev_key_path(config)
    if config.secret_key is None and not path.exists():
        path.touch(mode=0o600)
        path.write_text(make_secret_key() + "\n", encoding="utf-8")


def _read_dev_key(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _derive_master_key(text: str) -> _MasterKey:
    key = hashlib.blake2b(text.encode(), digest_size=32, person=b"jobforge-kek").digest()
    return _MasterKey(hashlib.sha256(key).hexdigest()[:16], AESGCM(key))


def _build_key_associated_data(tenant_id: UUID) -> bytes:
    return f"{tenant_id}|tenant_keys".encode()
