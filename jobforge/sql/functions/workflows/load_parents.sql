-- Workers call this for a running job: returns the jobs that it waited for, with their results, and
-- the workflow or batch that it belongs to. The callback of a batch gets the batch's jobs, the
-- first 10,000 of them. Each has the path of its node as `name` if it has one. Locks the job.
-- Raises JF001, JF003 if the lease is not held, JF005, JF006, JF007 (more than 32 MiB of text).
create or replace function jobforge.load_parents(
    p_worker_id uuid,
    p_job_id uuid,
    p_lease bigint,
    p_tenant_id uuid default null
) returns table (parents jsonb, workflow jsonb)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_workflow jobforge.workflows;
    v_ids uuid[];
begin
    perform jobforge_private.lock_leased_job(v_tenant, p_worker_id, p_job_id, p_lease);
    v_ids := array(select d.parent_id from jobforge.dependencies as d
                    where d.tenant_id = v_tenant and d.child_id = p_job_id);
    select w.* into v_workflow
      from jobforge.workflow_jobs as m
      join jobforge.workflows as w on w.tenant_id = v_tenant and w.id = m.workflow_id
     where m.tenant_id = v_tenant and m.job_id = p_job_id;
    if not found then
        select w.* into v_workflow
          from jobforge.jobs as j
          join jobforge.workflows as w
            on w.tenant_id = v_tenant and w.id::text = j.source_ref
         where j.tenant_id = v_tenant and j.id = p_job_id and j.source = 'system';
        if found then
            v_ids := v_ids || array(
                select m.job_id from jobforge.workflow_jobs as m
                 where m.tenant_id = v_tenant and m.workflow_id = v_workflow.id
                   and m.job_id is not null
                 order by m.position
                 limit 10000);
        end if;
    end if;
    parents := jobforge_private.show_parents(v_tenant, v_ids, v_workflow.id);
    workflow := case when v_workflow.id is not null then jsonb_build_object(
        'id', v_workflow.id, 'kind', v_workflow.kind, 'name', v_workflow.name,
        'node', (select m.name from jobforge.workflow_jobs as m
                  where m.tenant_id = v_tenant and m.job_id = p_job_id),
        'input', jobforge_private.readable(v_workflow.input),
        'correlation_id', v_workflow.correlation_id) end;
    return next;
end $$;
