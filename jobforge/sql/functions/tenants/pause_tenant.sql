-- Operators call this to pause a tenant: its jobs stay queued, and running ones continue. Raises
-- JF002, JF014.
create or replace function jobforge.pause_tenant(p_tenant_id uuid) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_tenant_id is null then
        perform jobforge_private.refuse('JF002', 'tenant_id is required', '{"field": "tenant_id"}');
    end if;
    perform jobforge_private.check_not_erased(p_tenant_id);
    insert into jobforge.tenants (id, created_at, updated_at)
    values (p_tenant_id, jobforge_private.now(), jobforge_private.now())
    on conflict (id) do nothing;
    update jobforge.tenants as p
       set paused_at = coalesce(p.paused_at, jobforge_private.now()),
           updated_at = jobforge_private.now()
     where p.id = p_tenant_id and p.erased_at is null;
    perform jobforge_private.audit(p_tenant_id, 'tenant.pause', p_tenant_id::text);
end $$;
