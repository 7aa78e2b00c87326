-- Revokes an API key immediately. Safe to repeat. Locks the key. Raises JF001, JF004, JF006.
create or replace function jobforge.revoke_api_key(p_id uuid, p_tenant_id uuid default null)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key jobforge.api_keys :=
        jobforge_private.lock_api_key(jobforge_private.tenant_or_all(p_tenant_id), p_id);
begin
    if v_key.revoked_at is not null then
        return;
    end if;
    update jobforge.api_keys as k set revoked_at = jobforge_private.now() where k.id = p_id;
    perform jobforge_private.audit(v_key.tenant_id, 'key.revoke', p_id::text,
        jsonb_build_object('name', v_key.name, 'role', v_key.role));
end $$;
