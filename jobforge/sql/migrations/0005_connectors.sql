-- What tenants configure their connectors by, and the keys that seal the secrets in it.

-- The key that seals the secrets of a tenant, itself wrapped by the installation's key, which the
-- database never sees; `key_id` tells which one that was.
create table jobforge.tenant_keys (
    tenant_id uuid not null,
    created_at timestamptz not null,
    wrapped_at timestamptz not null,
    key_id text not null,
    wrapped bytea not null,
    constraint tenant_keys_pkey primary key (tenant_id),
    constraint wrapped_keys_are_whole check (octet_length(wrapped) = 60)
);

-- `secrets` has for each name {"from": "env:NAME" | "file:NAME"}, which a worker looks up, or
-- {"sealed": base64}. Never a secret in clear.
create table jobforge.connector_configs (
    tenant_id uuid not null,
    id uuid not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    connector text not null,
    name text not null,
    created_by text not null,
    updated_by text not null,
    settings jsonb not null,
    secrets jsonb not null,
    constraint connector_configs_pkey primary key (tenant_id, id),
    constraint connector_config_names_are_unique unique (tenant_id, name)
);
