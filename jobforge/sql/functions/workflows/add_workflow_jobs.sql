-- Workers call this for a running job that adds nodes to its workflow, as enqueue_workflow takes
-- them; `after` may also name existing nodes. Jobs that come after this job also wait for the last
-- of the new ones. A node whose name exists is not added again, so a job that runs twice may call
-- this twice. Returns the jobs of all the nodes. Locks the job and the named parents, blocked ones
-- last, each group in order of ID, and then the workflow. Raises JF001, JF002, JF003 if the lease
-- is not held, JF004 if the job is in no workflow, JF005 if a cancel was requested, JF006 to JF010,
-- JF014, and JF012 outside READ COMMITTED.
create or replace function jobforge.add_workflow_jobs(
    p_worker_id uuid,
    p_job_id uuid,
    p_lease bigint,
    p_nodes jsonb,
    p_tenant_id uuid default null
) returns table (node text, job_id uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_workflow_id uuid;
    v_known text[];
    v_nodes jsonb;
    v_last uuid[];
begin
    perform jobforge_private.require_read_committed('add_workflow_jobs');
    perform jobforge_private.check_bounded('nodes', p_nodes, null);
    select m.workflow_id into v_workflow_id
      from jobforge.workflow_jobs as m
      join jobforge.workflows as w on w.tenant_id = v_tenant and w.id = m.workflow_id
     where m.tenant_id = v_tenant and m.job_id = p_job_id and w.kind = 'workflow';
    -- Lock the job and the named parents in the order of all functions: blocked jobs last, jobs
    -- before workflows.
    perform
       from (select distinct n.id
               from (select p_job_id as id
                     union all
                     select m.job_id
                       from jsonb_path_query(
                            case when jsonb_typeof(p_nodes) = 'array' then p_nodes end,
                            '$[*].after[*]') as a(name)
                       join jobforge.workflow_jobs as m
                         on m.tenant_id = v_tenant and m.workflow_id = v_workflow_id
                        and m.name = a.name #>> '{}') as n) as d
       join jobforge.jobs as j on j.tenant_id = v_tenant and j.id = d.id
      order by j.state = 'blocked', j.id
        for update of j;
    perform jobforge_private.lock_leased_job(v_tenant, p_worker_id, p_job_id, p_lease);
    if v_workflow_id is null then
        perform jobforge_private.refuse('JF004', 'The job does not belong to a workflow',
            jsonb_build_object('job_id', p_job_id));
    elsif jsonb_typeof(p_nodes) is distinct from 'array' then
        perform jobforge_private.refuse('JF002', 'nodes must be a list', '{"field": "nodes"}');
    end if;
    perform jobforge_private.lock_workflow(v_tenant, v_workflow_id, 'workflow');
    v_known := array(select m.name from jobforge.workflow_jobs as m
                      where m.tenant_id = v_tenant and m.workflow_id = v_workflow_id);
    v_nodes := (select coalesce(jsonb_agg(n.node order by n.place), '[]')
                  from jsonb_array_elements(p_nodes) with ordinality as n(node, place)
                 where (n.node ->> 'name' = any (v_known)) is not true);
    if v_nodes <> '[]' then
        perform jobforge_private.check_workflow(jsonb_build_object('nodes', v_nodes), v_known);
        v_last := jobforge_private.insert_nodes(v_tenant, v_workflow_id, v_nodes);
        with joined as (
            insert into jobforge.dependencies (
                   tenant_id, child_id, parent_id, created_at, on_parent_failure)
            select v_tenant, d.child_id, l.id, jobforge_private.now(), d.on_parent_failure
              from unnest(v_last) as l(id)
             cross join jobforge.dependencies as d
             where d.tenant_id = v_tenant and d.parent_id = p_job_id
            returning child_id, parent_id, on_parent_failure
        )
        insert into jobforge.awaited_jobs (
               tenant_id, waiter_id, job_id, is_within, on_parent_failure)
        select v_tenant, i.child_id, i.parent_id, false, i.on_parent_failure from joined as i;
    end if;
    return query
    select n.path, n.job_id from jobforge_private.list_nodes(v_tenant, v_workflow_id) as n
     where split_part(n.path, '/', 1) in (
           select e.node ->> 'name' from jsonb_array_elements(p_nodes) as e(node));
end $$;
