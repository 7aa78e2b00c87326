-- Searches for an unfinished job of a workflow, from the position of the last search on, and
-- finishes the workflow if there is none. The caller has locked the row in an earlier statement.
-- Called by advance_workflows and other functions that change workflows.
create or replace function jobforge_private.advance_workflow(p_tenant_id uuid, p_id uuid)
returns void
language plpgsql
as $$
declare
    v_workflow jobforge.workflows;
    v_live integer;
begin
    select * into v_workflow from jobforge.workflows as w
     where w.tenant_id = p_tenant_id and w.id = p_id;
    if v_workflow.finished_at is not null or v_workflow.is_open then
        return;
    end if;
    select m.position into v_live
      from jobforge.workflow_jobs as m
     where m.tenant_id = p_tenant_id and m.workflow_id = p_id
       and m.position >= v_workflow.live_from
       and (exists (select from jobforge.jobs as j
                     where j.tenant_id = p_tenant_id and j.id = m.job_id
                       and j.state || '' <> 'dead')
            or exists (select from jobforge.workflows as i
                        where i.tenant_id = p_tenant_id and i.id = m.inner_id
                          and i.finished_at is null))
     order by m.position
     limit 1;
    if v_live is null then
        perform jobforge_private.finish_workflow(v_workflow);
    elsif v_live > v_workflow.live_from then
        update jobforge.workflows as w
           set live_from = v_live
         where w.tenant_id = p_tenant_id and w.id = p_id;
    end if;
end $$;
