"""Connector configurations, and the wrapped keys of tenants."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from jobforge.errors import Json


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """A tenant's connector configuration. `secrets` has each secret's origin, not its value."""

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
    """A configuration for a worker, with its secrets as stored."""

    id: UUID
    settings: dict[str, Json]
    secrets: dict[str, dict[str, str]]


class WrappedKey(NamedTuple):
    """A tenant's key, encrypted with the installation's key `key_id`."""

    key_id: str
    wrapped: bytes


class TenantWrappedKey(NamedTuple):
    tenant_id: UUID
    kept: WrappedKey
