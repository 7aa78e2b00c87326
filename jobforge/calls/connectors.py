"""Calls on connector configurations, and on the keys that encrypt their secrets."""

from collections.abc import Mapping
from uuid import UUID

from jobforge.calls.call import Call, build_call
from jobforge.calls.results import NOTHING, Result, many, one, value
from jobforge.errors import Json
from jobforge.types.connectors import ConnectorConfig, OpenConfig, TenantWrappedKey, WrappedKey


def create_connector_config(
    config_id: UUID, config: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[UUID]:
    """Create a configuration. Its secrets are sealed for `config_id`, or references."""
    return build_call(
        "create_connector_config",
        value(UUID, "id"),
        id=config_id,
        config=config,
        tenant_id=tenant_id,
    )


def edit_connector_config(
    config_id: UUID, config: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Call[None]:
    """Change the given fields and secrets; a secret of None is removed."""
    return build_call(
        "edit_connector_config", NOTHING, id=config_id, config=config, tenant_id=tenant_id
    )


def delete_connector_config(config_id: UUID, *, tenant_id: UUID | None = None) -> Call[None]:
    return build_call("delete_connector_config", NOTHING, id=config_id, tenant_id=tenant_id)


def get_connector_config(
    config_id: UUID, *, tenant_id: UUID | None = None
) -> Call[ConnectorConfig]:
    """Return a configuration. Raises NotFound."""
    return build_call(
        "get_connector_config", one(ConnectorConfig), id=config_id, tenant_id=tenant_id
    )


def list_connector_configs(
    *, limit: int = 50, after: str | None = None, tenant_id: UUID | None = None
) -> Call[list[ConnectorConfig]]:
    """List configurations by name; `after` is the last name of the previous page."""
    return build_call(
        "list_connector_configs",
        many(ConnectorConfig),
        limit=limit,
        after=after,
        tenant_id=tenant_id,
    )


def open_connector_config(name: str, *, tenant_id: UUID | None = None) -> Call[OpenConfig]:
    """Return a configuration with its stored secrets, for workers. Raises NotFound."""
    return build_call("open_connector_config", one(OpenConfig), name=name, tenant_id=tenant_id)


def keep_tenant_key(key: WrappedKey, *, tenant_id: UUID | None = None) -> Call[WrappedKey]:
    """Return the tenant's key; store the given one if the tenant has none."""
    return build_call(
        "keep_tenant_key",
        one(WrappedKey),
        key_id=key.key_id,
        wrapped=key.wrapped,
        tenant_id=tenant_id,
    )


def list_tenant_keys(
    key_id: str, *, limit: int = 100, after: UUID | None = None, tenant_id: UUID | None = None
) -> Call[list[TenantWrappedKey]]:
    """List keys not wrapped by `key_id`; `after` is the last tenant of the previous page."""
    return build_call(
        "list_tenant_keys",
        _TENANT_KEYS,
        key_id=key_id,
        limit=limit,
        after=after,
        tenant_id=tenant_id,
    )


def rewrap_tenant_key(
    before: WrappedKey, after: WrappedKey, *, tenant_id: UUID | None = None
) -> Call[bool]:
    """Replace a wrapped key. Returns False if the stored one is no longer `before`."""
    return build_call(
        "rewrap_tenant_key",
        value(bool),
        before=before.wrapped,
        key_id=after.key_id,
        wrapped=after.wrapped,
        tenant_id=tenant_id,
    )


_TENANT_KEYS: Result[list[TenantWrappedKey]] = Result(
    "tenant_id, key_id, wrapped",
    lambda rows: [TenantWrappedKey(tenant_id, WrappedKey(*key)) for tenant_id, *key in rows],
)
