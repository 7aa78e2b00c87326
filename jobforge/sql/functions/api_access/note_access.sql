-- The server calls this when an operator acts for a tenant: adds an entry to the tenant's audit
-- log, or to the installation's if the tenant is erased, because nothing may be stored for an
-- erased tenant. Raises JF001, JF002, JF006.
create or replace function jobforge.note_access(
    p_action text,
    p_target text default null,
    p_tenant_id uuid default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := coalesce(
        case when jobforge.tenant() is null then jobforge_private.tenant_or_all(p_tenant_id) end,
        jobforge_private.resolve_tenant(p_tenant_id));
begin
    perform jobforge_private.check_name('action', p_action, 100);
    perform jobforge_private.audit(
        case when not jobforge_private.is_erased(v_tenant) then v_tenant end, p_action,
        left(p_target, 500));
end $$;
