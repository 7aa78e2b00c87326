"""Calls on connector configurations, and on the keys that encrypt their secrets."""

from collections.abc import Mapping
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.rows import Rows
from jobforge.errors import Json
from jobforge.types.connectors import ConnectorConfig, OpenConfig, TenantWrappedKey, WrappedKey
from jobforge.types.jsonb import encode


def create_connector_config(
    config_id: UUID, config: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[UUID]:
    """Create a configuration. Its secrets are sealed for `config_id`, or references."""
    return Call(
        "select jobforge.create_connector_config(%s, %s::jsonb, %s)",
        (config_id, encode(dict(config), "config"), tenant_id),
        rows.value,
    )


def edit_connector_config(
    config_id: UUID, config: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[None]:
    """Change the given fields and secrets; a secret of None is removed."""
    return Call(
        "select jobforge.edit_connector_config(%s, %s::jsonb, %s)",
        (config_id, encode(dict(config), "config"), tenant_id),
        rows.nothing,
    )


def delete_connector_config(config_id: UUID, *, tenant_id: UUID | None = None) -> Call[None]:
    return Call(
        "select jobforge.delete_connector_config(%s, %s)", (config_id, tenant_id), rows.nothing
    )


def get_connector_config(
    config_id: UUID, *, tenant_id: UUID | None = None
) -> Call[ConnectorConfig]:
    """Return a configuration. Raises NotFound."""
    return Call(
        """
        select id, name, connector, settings, secrets, created_at, created_by, updated_at,
               updated_by
          from jobforge.get_connector_config(%s, %s)
        """,
        (config_id, tenant_id),
        _connector_config,
    )


def list_connector_configs(
    *, limit: int = 50, after: str | None = None, tenant_id: UUID | None = None
) -> Call[list[ConnectorConfig]]:
    """List configurations by name; `after` is the last name of the previous page."""
    return Call(
        """
        select id, name, connector, settings, secrets, created_at, created_by, updated_at,
               updated_by
          from jobforge.list_connector_configs(%s::integer, %s, %s)
        """,
        (limit, after, tenant_id),
        _connector_configs,
    )


def open_connector_config(name: str, *, tenant_id: UUID | None = None) -> Call[OpenConfig]:
    """Return a configuration with its stored secrets, for workers. Raises NotFound."""
    return Call(
        "select id, settings, secrets from jobforge.open_connector_config(%s, %s)",
        (name, tenant_id),
        _open_config,
    )


def keep_tenant_key(key: WrappedKey, *, tenant_id: UUID | None = None) -> Call[WrappedKey]:
    """Return the tenant's key; store the given one if the tenant has none."""
    return Call(
        "select key_id, wrapped from jobforge.keep_tenant_key(%s, %s, %s)",
        (key.key_id, key.wrapped, tenant_id),
        _wrapped_key,
    )


def list_tenant_keys(
    key_id: str, *, limit: int = 100, after: UUID | None = None, tenant_id: UUID | None = None
) -> Call[list[TenantWrappedKey]]:
    """List keys not wrapped by `key_id`; `after` is the last tenant of the previous page."""
    return Call(
        """
        select tenant_id, key_id, wrapped
          from jobforge.list_tenant_keys(%s, %s::integer, %s, %s)
        """,
        (key_id, limit, after, tenant_id),
        _tenant_keys,
    )


def rewrap_tenant_key(
    before: WrappedKey, after: WrappedKey, *, tenant_id: UUID | None = None
) -> Call[bool]:
    """Replace a wrapped key; return False if the stored one is no longer `before`."""
    return Call(
        "select jobforge.rewrap_tenant_key(%s, %s, %s, %s)",
        (before.wrapped, after.key_id, after.wrapped, tenant_id),
        rows.value,
    )


def _connector_config(rows: Rows) -> ConnectorConfig:
    return ConnectorConfig(*rows[0])


def _connector_configs(rows: Rows) -> list[ConnectorConfig]:
    return [ConnectorConfig(*row) for row in rows]


def _open_config(rows: Rows) -> OpenConfig:
    return OpenConfig(*rows[0])


def _wrapped_key(rows: Rows) -> WrappedKey:
    key_id, wrapped = rows[0]
    return WrappedKey(key_id, bytes(wrapped))


def _tenant_keys(rows: Rows) -> list[TenantWrappedKey]:
    return [
        TenantWrappedKey(tenant_id, WrappedKey(key_id, bytes(wrapped)))
        for tenant_id, key_id, wrapped in rows
    ]
