-- Returns a page of a tenant's workflows, newest first, without inner workflows. p_before is the
-- last ID of the previous page. p_filter, all optional: name, state. Raises JF001, JF002, JF006,
-- JF014.
create or replace function jobforge.list_workflows(
    p_filter jsonb default '{}',
    p_limit integer default 50,
    p_before uuid default null,
    p_tenant_id uuid default null
) returns table (workflow jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    return query
    select * from jobforge_private.list_workflow_page(
        jobforge_private.require_tenant(p_tenant_id), 'workflow', p_filter, p_limit, p_before);
end $$;
