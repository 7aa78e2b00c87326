"""A sealed secret can be opened only in its own place, with its own keys, and unchanged."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from jobforge.config import Config
from jobforge.errors import ConfigError, SealBroken
from jobforge.security.vault import (
    SealContext,
    TenantKey,
    Vault,
    ensure_dev_key,
    make_secret_key,
    open_vault,
)
from jobforge.types.connectors import WrappedKey

OLD, NEW = "o" * 40, "n" * 40
TENANT = uuid4()
PLACE = SealContext("connector_configs", uuid4(), "secrets.token")
PLAIN = b"the plain text"


def kept(vault: Vault, tenant: UUID = TENANT) -> WrappedKey:
    """Return what the database would store for the vault."""
    key_id, wrapped, _ = vault.build_tenant_key_call(tenant).parameters
    assert isinstance(key_id, str)
    assert isinstance(wrapped, bytes)
    return WrappedKey(key_id, wrapped)


def opened(vault: Vault, key: WrappedKey, tenant: UUID = TENANT) -> TenantKey:
    """Return the key of a tenant whose database returns this."""
    rows: Sequence[tuple[Any, ...]] = [tuple(key)]
    return vault.build_tenant_key_call(tenant).decode(rows)


def test_a_sealed_secret_can_be_opened_and_shows_nothing() -> None:
    vault = Vault(OLD)
    key = opened(vault, kept(vault))
    sealed = [key.seal(PLACE, PLAIN) for _ in range(2)]
    assert [key.open(PLACE, one) for one in sealed] == [PLAIN, PLAIN]
    assert sealed[0] != sealed[1]
    assert PLAIN not in sealed[0]
    assert key.open(PLACE, key.seal(PLACE, b"")) == b""


@pytest.mark.parametrize(
    "place",
    [
        PLACE._replace(table="webhook_endpoints"),
        PLACE._replace(row=uuid4()),
        PLACE._replace(column="secrets.other"),
    ],
)
def test_a_sealed_secret_cannot_be_opened_in_another_place(place: SealContext) -> None:
    vault = Vault(OLD)
    key = opened(vault, kept(vault))
    with pytest.raises(SealBroken):
        key.open(place, key.seal(PLACE, PLAIN))


def test_a_sealed_secret_cannot_be_opened_for_another_tenant() -> None:
    vault = Vault(OLD)
    wrapped, other = kept(vault), uuid4()
    with pytest.raises(SealBroken):
        opened(vault, wrapped, other)
    sealed = opened(vault, wrapped).seal(PLACE, PLAIN)
    with pytest.raises(SealBroken):
        opened(vault, kept(vault, other), other).open(PLACE, sealed)
    key = bytes(32)
    with pytest.raises(SealBroken):
        TenantKey(other, key).open(PLACE, TenantKey(TENANT, key).seal(PLACE, PLAIN))


def test_a_changed_sealed_secret_cannot_be_opened() -> None:
    vault = Vault(OLD)
    wrapped = kept(vault)
    key = opened(vault, wrapped)
    sealed = key.seal(PLACE, PLAIN)
    for index in range(len(sealed)):
        changed = bytes(byte ^ (index == at) for at, byte in enumerate(sealed))
        with pytest.raises(SealBroken):
            key.open(PLACE, changed)
    for cut in (b"", sealed[:1], sealed[:12], sealed[:-1], sealed + b"x"):
        with pytest.raises(SealBroken):
            key.open(PLACE, cut)
    for index in range(len(wrapped.wrapped)):
        changed = bytes(byte ^ (index == at) for at, byte in enumerate(wrapped.wrapped))
        with pytest.raises(SealBroken):
            opened(vault, wrapped._replace(wrapped=changed))


def test_a_rotated_key_opens_secrets_sealed_with_the_old_one() -> None:
    before = Vault(OLD)
    old = kept(before)
    sealed = opened(before, old).seal(PLACE, PLAIN)
    both = Vault(NEW, OLD)
    assert opened(both, old).open(PLACE, sealed) == PLAIN
    new = both.rewrap(TENANT, old)
    assert (new.key_id, both.key_id) == (Vault(NEW).key_id, Vault(NEW).key_id)
    assert opened(Vault(NEW), new).open(PLACE, sealed) == PLAIN
    for vault, key in ((Vault(NEW), old), (before, new)):
        with pytest.raises(ConfigError):
            opened(vault, key)
    assert both.rewrap(TENANT, new).key_id == new.key_id


def test_without_a_key_there_is_no_vault_and_dev_creates_one(tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path)
    with pytest.raises(ConfigError):
        open_vault(config)
    ensure_dev_key(config)
    made = open_vault(config)
    ensure_dev_key(config)
    assert open_vault(config).key_id == made.key_id
    assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600
    assert open_vault(replace(config, secret_key=OLD)).key_id == Vault(OLD).key_id
    assert make_secret_key() != make_secret_key()


def test_keys_are_not_shown() -> None:
    config = Config(secret_key=OLD, secret_key_previous=NEW, egress_proxy="http://u:pw@proxy")
    assert not any(secret in repr(config) for secret in (OLD, NEW, "pw"))
    assert OLD not in repr(Vault(OLD).__dict__)
