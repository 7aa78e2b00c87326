-- Workers and the server call this for the tenant's key before they seal or open a secret. Stores
-- the given key if the tenant has none, and returns the stored key: the first caller's key wins.
-- Raises JF001, JF002, JF006, JF014.
create or replace function jobforge.keep_tenant_key(
    p_key_id text,
    p_wrapped bytea,
    p_tenant_id uuid default null
) returns table (key_id text, wrapped bytea)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_now timestamptz := jobforge_private.now();
begin
    perform jobforge_private.check_name('key_id', p_key_id, 100);
    if p_wrapped is null or octet_length(p_wrapped) <> 60 then
        perform jobforge_private.refuse('JF002', 'wrapped must be 60 bytes long',
            '{"field": "wrapped"}');
    end if;
    return query select k.key_id, k.wrapped from jobforge.tenant_keys as k
                  where k.tenant_id = v_tenant;
    if found then
        return;
    end if;
    insert into jobforge.tenant_keys (tenant_id, created_at, wrapped_at, key_id, wrapped)
    values (v_tenant, v_now, v_now, p_key_id, p_wrapped)
    on conflict (tenant_id) do nothing;
    -- A later statement: it sees the key that another transaction stored first.
    return query select k.key_id, k.wrapped from jobforge.tenant_keys as k
                  where k.tenant_id = v_tenant;
end $$;
