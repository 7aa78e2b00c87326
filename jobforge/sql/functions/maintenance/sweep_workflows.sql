-- Deletes workflows and batches that ended before p_before, failed ones before p_dead_before,
-- p_limit at most. Cancels blocked jobs that wait for a parent that no longer exists, because they
-- would wait forever. Never waits for a job that another transaction has locked. Returns how many
-- workflows were deleted. Locks jobs before workflows, and workflows before their nodes. Called by
-- sweep.
create or replace function jobforge_private.sweep_workflows(
    p_before timestamptz,
    p_dead_before timestamptz,
    p_limit integer
) returns bigint
language plpgsql
as $$
declare
    v_tenants uuid[];
    v_swept uuid[];
begin
    perform jobforge_private.cancel_rows(
        jobforge_private.lock_orphaned_jobs(p_before, p_limit),
        'a parent was removed by retention');
    with gone as (
        delete from jobforge.workflows as w
         where w.ctid = any (array(
               select e.ctid from jobforge.workflows as e
                where e.finished_at < case e.state when 'failed' then p_dead_before
                                                   else p_before end
                  -- An inner workflow is kept as long as the one around it.
                  and not exists (select from jobforge.workflows as o
                                   where o.tenant_id = e.tenant_id and o.id = e.parent_id)
                limit p_limit for update skip locked))
        returning w.tenant_id, w.id
    )
    select array_agg(g.tenant_id), array_agg(g.id) into v_tenants, v_swept from gone as g;
    delete from jobforge.workflow_jobs as m
     using unnest(v_tenants, v_swept) as g(tenant_id, id)
     where m.tenant_id = g.tenant_id and m.workflow_id = g.id;
    return coalesce(cardinality(v_swept), 0);
end $$;
