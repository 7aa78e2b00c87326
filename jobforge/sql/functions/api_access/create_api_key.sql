-- The server and operators call this to store a new API key. The database receives only p_lookup
-- and the SHA-256 of the key's text. The roles viewer and tenant_admin need a tenant, super_admin
-- must have none, and worker may have one or serve all tenants. p_scopes narrows what the key may
-- do; the server interprets them (null or empty: no restriction). Returns the ID of the key. Raises
-- JF001, JF002, JF005 (the lookup is taken: generate another key), JF006, JF014.
create or replace function jobforge.create_api_key(
    p_name text,
    p_role text,
    p_lookup text,
    p_hash bytea,
    p_scopes text[] default null,
    p_expires_at timestamptz default null,
    p_tenant_id uuid default null
) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.tenant_or_all(p_tenant_id);
    v_key jobforge.api_keys;
begin
    perform jobforge_private.check_api_key(p_name, p_role, p_scopes, p_expires_at, v_tenant);
    v_key.id := jobforge_private.uuid7();
    v_key.tenant_id := v_tenant;
    v_key.created_at := jobforge_private.now();
    v_key.expires_at := p_expires_at;
    v_key.role := p_role;
    v_key.lookup := p_lookup;
    v_key.name := p_name;
    v_key.created_by := jobforge_private.actor();
    v_key.hash := p_hash;
    v_key.scopes := coalesce(p_scopes, '{}');
    perform jobforge_private.insert_api_key(v_key);
    perform jobforge_private.audit(v_tenant, 'key.create', v_key.id::text, jsonb_build_object(
        'name', p_name, 'role', p_role, 'scopes', p_scopes, 'expires_at', p_expires_at));
    return v_key.id;
end $$;
