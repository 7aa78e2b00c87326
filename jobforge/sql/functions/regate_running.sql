-- Marks the running jobs of a tenant, definition or queue whose limits changed, so that caps count them from
-- now on. Queued jobs need no such haste: a claim that meets a wrongly marked one mends it.
create or replace function jobforge.regate_running(
    p_tenant_id uuid default null,
    p_definition text default null,
    p_queue text default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform jobforge.regate_rows(array(
        select j.ctid from jobforge.jobs as j
         where j.state = 'running'
           and (p_tenant_id is null or j.tenant_id = p_tenant_id)
           and (p_definition is null or j.definition = p_definition)
           and (p_queue is null or j.queue = p_queue)
         order by j.tenant_id, j.id
           for update));
end $$;
