-- Operators call this to resume a paused tenant. Notifies the workers. Raises JF014.
create or replace function jobforge.resume_tenant(p_tenant_id uuid) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform jobforge_private.check_not_erased(p_tenant_id);
    update jobforge.tenants as p
       set paused_at = null, updated_at = jobforge_private.now()
     where p.id = p_tenant_id and p.erased_at is null;
    perform jobforge_private.wake_workers();
    perform jobforge_private.audit(p_tenant_id, 'tenant.resume', p_tenant_id::text);
end $$;
