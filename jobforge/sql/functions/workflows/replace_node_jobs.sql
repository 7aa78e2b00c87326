-- Replaces jobs by their retries, p_old[i] by p_new[i]: as nodes of their workflows, and as parents
-- of jobs that have not run yet. Those that are still blocked wait for the new jobs instead. Locks
-- workflows, inner ones first, and then their nodes, as retention does. Called by
-- retry_finished_job and retry_workflow.
create or replace function jobforge_private.replace_node_jobs(
    p_tenant_id uuid,
    p_old uuid[],
    p_new uuid[]
) returns void
language plpgsql
as $$
declare
    v_new_jobs uuid[];
    v_old_jobs uuid[];
    v_children uuid[];
    v_policies text[];
    v_tenants uuid[];
begin
    v_tenants := array_fill(p_tenant_id, array[cardinality(p_new)]);
    perform jobforge_private.reopen_workflows(v_tenants, p_old);
    update jobforge.workflow_jobs as m
       set job_id = r.new_id
      from unnest(p_old, p_new) as r(old_id, new_id)
     where m.tenant_id = p_tenant_id and m.job_id = r.old_id;

    select array_agg(r.new_id), array_agg(r.old_id), array_agg(d.child_id),
           array_agg(d.on_parent_failure)
      into v_new_jobs, v_old_jobs, v_children, v_policies
      from unnest(p_old, p_new) as r(old_id, new_id)
      join jobforge.dependencies as d on d.tenant_id = p_tenant_id and d.parent_id = r.old_id
     where d.child_id <> all (p_old)
       and (exists (select from jobforge.jobs as j
                     where j.tenant_id = p_tenant_id and j.id = d.child_id and j.attempt = 0)
            or exists (select from jobforge.finished_jobs as f
                        where f.tenant_id = p_tenant_id and f.id = d.child_id
                          and f.attempt = 0));
    if v_new_jobs is not null then
        delete from jobforge.dependencies as d
         using unnest(v_children, v_old_jobs) as o(child_id, parent_id)
         where d.tenant_id = p_tenant_id and d.child_id = o.child_id
           and d.parent_id = o.parent_id;
        delete from jobforge.awaited_jobs as a
         using unnest(v_children, v_old_jobs) as o(child_id, parent_id)
         where a.tenant_id = p_tenant_id and a.waiter_id = o.child_id
           and a.job_id = o.parent_id;
        insert into jobforge.dependencies (
               tenant_id, child_id, parent_id, created_at, on_parent_failure)
        select p_tenant_id, e.child_id, e.parent_id, jobforge_private.now(), e.policy
          from unnest(v_children, v_new_jobs, v_policies) as e(child_id, parent_id, policy)
            on conflict do nothing;
        insert into jobforge.awaited_jobs (
               tenant_id, waiter_id, job_id, is_within, on_parent_failure)
        select p_tenant_id, e.child_id, e.parent_id, false, e.policy
          from unnest(v_children, v_new_jobs, v_policies) as e(child_id, parent_id, policy)
          join jobforge.jobs as j on j.tenant_id = p_tenant_id and j.id = e.child_id
         where j.state || '' = 'blocked'
            on conflict do nothing;
    end if;
    update jobforge.jobs as j
       set flags = j.flags | 2
     where j.tenant_id = p_tenant_id and j.id = any (p_new) and j.flags & 2 = 0
       and j.state in ('scheduled', 'blocked', 'queued')
       and (j.id = any (v_new_jobs)
            or exists (select from jobforge.workflow_jobs as m
                        where m.tenant_id = p_tenant_id and m.job_id = j.id));
    -- A new job whose parent was canceled in the meantime has already finished.
    perform jobforge_private.advance_workflows(v_tenants, p_new);
end $$;
