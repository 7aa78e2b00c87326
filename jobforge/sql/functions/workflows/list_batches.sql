-- Returns a page of a tenant's batches, newest first. Arguments and errors are those of
-- list_workflows.
create or replace function jobforge.list_batches(
    p_filter jsonb default '{}',
    p_limit integer default 50,
    p_before uuid default null,
    p_tenant_id uuid default null
) returns table (batch jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    return query
    select * from jobforge_private.list_workflow_page(
        jobforge_private.require_tenant(p_tenant_id), 'batch', p_filter, p_limit, p_before);
end $$;
