-- Returns the tenant for which a call acts (resolve_tenant), and refuses erased tenants, from the
-- start of their erasure. First call of every function of a tenant. Raises JF001, JF002, JF006,
-- JF014.
create or replace function jobforge_private.require_tenant(p_tenant_id uuid) returns uuid
language plpgsql stable
as $$
declare
    v_tenant uuid := jobforge_private.resolve_tenant(p_tenant_id);
begin
    perform jobforge_private.check_not_erased(v_tenant);
    return v_tenant;
end $$;
