-- Marks the running jobs of a tenant, definition or queue whose limits changed, so that caps
-- count them from now on. Called by what changes limits, and by claims for a minute after. Rows
-- that are being settled are skipped. Queued jobs need no such haste: a claim that meets a
-- wrongly marked one mends it.
create or replace function jobforge.regate_running(
    p_kind text,
    p_queue text,
    p_tenant_id uuid,
    p_definition text
) returns void
language plpgsql
as $$
begin
    perform jobforge.regate_rows(array(
        select j.ctid from jobforge.jobs as j
         where j.state = 'running'
           and case p_kind when 'queue' then j.queue = p_queue
                           when 'tenant' then j.tenant_id = p_tenant_id
                           else j.definition = p_definition end
           for update skip locked));
end $$;
