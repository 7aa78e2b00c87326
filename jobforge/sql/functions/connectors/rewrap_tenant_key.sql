-- Operators call this to replace a tenant's wrapped key by the same key wrapped by the
-- installation's new key. p_before is the wrapped key that they read. Returns false if it has
-- changed since. Locks the key. Raises JF001, JF002, JF006.
create or replace function jobforge.rewrap_tenant_key(
    p_before bytea,
    p_key_id text,
    p_wrapped bytea,
    p_tenant_id uuid default null
) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.tenant_or_all(p_tenant_id);
begin
    if v_tenant is null then
        perform jobforge_private.refuse('JF001', 'tenant_id is required');
    end if;
    perform jobforge_private.check_name('key_id', p_key_id, 100);
    if p_wrapped is null or octet_length(p_wrapped) <> 60 then
        perform jobforge_private.refuse('JF002', 'wrapped must be 60 bytes long',
            '{"field": "wrapped"}');
    end if;
    update jobforge.tenant_keys as k
       set key_id = p_key_id, wrapped = p_wrapped, wrapped_at = jobforge_private.now()
     where k.tenant_id = v_tenant and k.wrapped = p_before;
    if not found then
        return false;
    end if;
    perform jobforge_private.audit(v_tenant, 'key.rewrap', p_key_id);
    return true;
end $$;
