"""Calls on connector configurations, and on the keys that encrypt their secrets."""

from collections.abc import Mapping
from uuid import UUID

from jobforge.calls.call import Call, JsonArgument
from jobforge.calls.results import NOTHING, Result, many, one, value
from jobforge.errors import Json
from jobforge.types.connectors import ConnectorConfig, OpenConfig, TenantWrappedKey, WrappedKey


def create_connector_config(
    config_id: UUID, config: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[UUID]:
    """Create a configuration. Its secrets are sealed for `config_id`, or references."""
    return Call(
        "create_connector_config",
        {
            "id": config_id,
            "config": JsonArgument.from_value(dict(config), "config"),
            "tenant_id": tenant_id,
        },
        value(UUID, "id"),
    )


def edit_connector_config(
    config_id: UUID, config: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[None]:
    """Change the given fields and secrets; a secret of None is removed."""
    return Call(
        "edit_connector_config",
        {
            "id": config_id,
            "config": JsonArgument.from_value(dict(config), "config"),
            "tenant_id": tenant_id,
        },
        NOTHING,
    )


def delete_connector_config(config_id: UUID, *, tenant_id: UUID | None = None) -> Call[None]:
    return Call("delete_connector_config", {"id": config_id, "tenant_id": tenant_id}, NOTHING)


def get_connector_config(
    config_id: UUID, *, tenant_id: UUID | None = None
) -> Call[ConnectorConfig]:
    """Return a configuration. Raises NotFound."""
    return Call(
        "get_connector_config", {"id": config_id, "tenant_id": tenant_id}, one(ConnectorConfig)
    )


def list_connector_configs(
    *, limit: int = 50, after: str | None = None, tenant_id: UUID | None = None
) -> Call[list[ConnectorConfig]]:
    """List configurations by name; `after` is the last name of the previous page."""
    return Call(
        "list_connector_configs",
        {"limit": limit, "after": after, "tenant_id": tenant_id},
        many(ConnectorConfig),
    )


def open_connector_config(name: str, *, tenant_id: UUID | None = None) -> Call[OpenConfig]:
    """Return a configuration with its stored secrets, for workers. Raises NotFound."""
    return Call("open_connector_config", {"name": name, "tenant_id": tenant_id}, one(OpenConfig))


def keep_tenant_key(key: WrappedKey, *, tenant_id: UUID | None = None) -> Call[WrappedKey]:
    """Return the tenant's key; store the given one if the tenant has none."""
    return Call(
        "keep_tenant_key",
        {"key_id": key.key_id, "wrapped": key.wrapped, "tenant_id": tenant_id},
        _WRAPPED_KEY,
    )


def list_tenant_keys(
    key_id: str, *, limit: int = 100, after: UUID | None = None, tenant_id: UUID | None = None
) -> Call[list[TenantWrappedKey]]:
    """List keys not wrapped by `key_id`; `after` is the last tenant of the previous page."""
    return Call(
        "list_tenant_keys",
        {"key_id": key_id, "limit": limit, "after": after, "tenant_id": tenant_id},
        _TENANT_KEYS,
    )


def rewrap_tenant_key(
    before: WrappedKey, after: WrappedKey, *, tenant_id: UUID | None = None
) -> Call[bool]:
    """Replace a wrapped key. Returns False if the stored one is no longer `before`."""
    return Call(
        "rewrap_tenant_key",
        {
            "before": before.wrapped,
            "key_id": after.key_id,
            "wrapped": after.wrapped,
            "tenant_id": tenant_id,
        },
        value(bool),
    )


_WRAPPED_KEY: Result[WrappedKey] = Result(
    "key_id, wrapped", lambda rows: WrappedKey(rows[0][0], bytes(rows[0][1]))
)

_TENANT_KEYS: Result[list[TenantWrappedKey]] = Result(
    "tenant_id, key_id, wrapped",
    lambda rows: [
        TenantWrappedKey(tenant_id, WrappedKey(key_id, bytes(wrapped)))
        for tenant_id, key_id, wrapped in rows
    ],
)
