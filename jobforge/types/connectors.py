"""Configurations of connectors, and the wrapped keys of tenants."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from jobforge.errors import Json


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """A tenant's configuration of a connector. `secrets` tell where each comes from, no more."""

    id: UUID
    name: str
    connector: str
    settings: dict[str, Json]
    secrets: dict[str, str]
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str


class OpenConfig(NamedTuple):
    """A configuration as a worker opens it, with its secrets as they are kept."""

    id: UUID
    settings: dict[str, Json]
    secrets: dict[str, dict[str, str]]


class WrappedKey(NamedTuple):
    """A tenant's key, wrapped by the installation's key of that id."""

    key_id: str
    wrapped: bytes


class TenantWrappedKey(NamedTuple):
    tenant_id: UUID
    kept: WrappedKey
