-- Operators put the same key of a tenant back, wrapped by the installation's new key; p_before is
-- what they have read. Answers whether it was still that. Raises JF001, JF002, JF006. Locks the
-- key.
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
        perform jobforge_private.refuse('JF001', 'name the tenant whose key it is');
    end if;
    perform jobforge_private.check_name('key_id', p_key_id, 100);
    if p_wrapped is null or octet_length(p_wrapped) <> 60 then
        perform jobforge_private.refuse('JF002', 'wrapped must have 60 bytes',
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
