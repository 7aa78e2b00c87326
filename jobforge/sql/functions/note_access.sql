-- The server writes down that an operator acts for a tenant: one row of the tenant's audit log.
-- Raises JF001, JF002, JF006.
create or replace function jobforge.note_access(
    p_action text,
    p_target text default null,
    p_tenant_id uuid default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := coalesce(jobforge.tenant_or_all(p_tenant_id),
                              jobforge.require_tenant(p_tenant_id));
begin
    perform jobforge.check_name('action', p_action, 100);
    perform jobforge.audit(v_tenant, p_action, left(p_target, 500));
end $$;
