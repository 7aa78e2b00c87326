-- Sets the workflows and batches of jobs that run again, and the workflows around them, back to
-- running. Locks them: inner ones first, then by (tenant_id, id). Called by revive_rows and
-- replace_node_jobs.
create or replace function jobforge_private.reopen_workflows(p_tenants uuid[], p_jobs uuid[])
returns void
language plpgsql
as $$
declare
    v_workflow record;
begin
    for v_workflow in
        with recursive concerned as (
            select distinct m.tenant_id, m.workflow_id as id
              from unnest(p_tenants, p_jobs) as e(tenant_id, id)
              join jobforge.workflow_jobs as m on m.tenant_id = e.tenant_id and m.job_id = e.id
            union
            select w.tenant_id, w.parent_id
              from concerned as c
              join jobforge.workflows as w on w.tenant_id = c.tenant_id and w.id = c.id
             where w.parent_id is not null
        )
        select w.tenant_id, w.id
          from concerned as c
          join jobforge.workflows as w on w.tenant_id = c.tenant_id and w.id = c.id
         order by w.depth desc, w.tenant_id, w.id
           for update of w
    loop
        update jobforge.workflows as w
           set state = 'running', finished_at = null, cancel_requested_at = null, counts = null,
               live_from = 1
         where w.tenant_id = v_workflow.tenant_id and w.id = v_workflow.id;
    end loop;
end $$;
