-- First call of every tenant function: the tenant it acts for. The setting app.tenant_id decides;
-- an argument may repeat it, never contradict it (JF006). Without the setting, only a trusted back
-- end may name the tenant by argument; others get JF001. The largest UUID is no tenant (JF002).
-- Refuses a tenant that is erased, from the moment at which its erasure begins (JF014).
create or replace function jobforge_private.require_tenant(p_tenant_id uuid) returns uuid
language plpgsql stable
as $$
declare
    v_tenant uuid := jobforge_private.resolve_tenant(p_tenant_id);
begin
    perform jobforge_private.check_not_erased(v_tenant);
    return v_tenant;
end $$;
