-- Returns an API key and locks its row. A key of another tenant counts as not found. Called by
-- revoke_api_key and rotate_api_key. Raises JF004.
create or replace function jobforge_private.lock_api_key(p_tenant_id uuid, p_id uuid)
returns jobforge.api_keys
language plpgsql
as $$
declare
    v_key jobforge.api_keys;
begin
    select * into v_key from jobforge.api_keys as k
     where k.id = p_id and (p_tenant_id is null or k.tenant_id = p_tenant_id)
       for update;
    if not found then
        perform jobforge_private.refuse('JF004',
            'API key not found', jsonb_build_object('id', p_id));
    end if;
    return v_key;
end $$;
