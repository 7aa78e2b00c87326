-- Applications call this to run part of a workflow again. Without p_from: every dead or canceled
-- job, including those of inner workflows. With p_from, the path of a node: that node and all that
-- come after it, whatever their state. Each gets a new job (retry_of) that replaces it as a node;
-- dead jobs are canceled. Blocked jobs wait for the new ones. Returns how many jobs were created.
-- One call at a time for an outermost workflow. Locks the jobs first, as lock_relatives does, and
-- starts again if another one died in the meantime; then workflows, inner ones first, and their
-- nodes. Raises JF001, JF002, JF004 (also for a job past retention), JF005 (some of them run, or
-- nothing is to be retried), JF006, JF008 to JF010, JF014, and JF012 outside READ COMMITTED.
create or replace function jobforge.retry_workflow(
    p_id uuid,
    p_from text default null,
    p_tenant_id uuid default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_outermost uuid := jobforge_private.outermost_workflow(v_tenant, p_id);
    v_nodes jobforge.workflow_node[];
    v_known uuid[];
    v_fault record;
    v_first_id uuid := jobforge_private.uuid7();
    v_jobs jsonb;
    v_old_jobs uuid[];
    v_new_jobs uuid[];
begin
    perform jobforge_private.require_read_committed('retry_workflow');
    -- Not the workflow's row, which is locked after jobs. Sixteen locks are enough for a tenant.
    perform jobforge_private.acquire_lock(
            'workflow ' || (hashtextextended(v_outermost::text, 0) & 15), v_tenant)
       from jobforge.workflows as w
      where w.tenant_id = v_tenant and w.id = p_id and w.kind = 'workflow';
    if not found then
        perform jobforge_private.refuse('JF004', 'Workflow not found',
            jsonb_build_object('id', p_id));
    end if;
    for v_turn in 1 .. 5 loop
        begin
            v_nodes := jobforge_private.nodes_to_retry(v_tenant, p_id, p_from);
            v_known := array(select n.job_id from unnest(v_nodes) as n);
            perform jobforge_private.lock_relatives(v_tenant, v_known);
            -- A later statement: it sees what the transactions that held the locks have done.
            v_nodes := jobforge_private.nodes_to_retry(v_tenant, p_id, p_from);
            exit when array(select n.job_id from unnest(v_nodes) as n) <@ v_known;
            raise sqlstate 'JF099';
        exception
            when sqlstate 'JF099' then null;  -- not JF000, which would catch all JF codes
        end;
    end loop;
    select n.path, n.state into v_fault from unnest(v_nodes) as n
     where n.state not in ('succeeded', 'canceled', 'dead')
     order by n.state = 'forgotten' desc, n.place
     limit 1;
    if v_fault.state = 'forgotten' then
        perform jobforge_private.refuse('JF004',
            format('The job of node ''%s'' was removed by retention', v_fault.path),
            jsonb_build_object('node', v_fault.path));
    elsif v_fault.state is not null then
        perform jobforge_private.refuse('JF005',
            format('Node ''%s'' is %s; wait for it or cancel it', v_fault.path, v_fault.state),
            jsonb_build_object('node', v_fault.path, 'state', v_fault.state));
    elsif v_nodes = '{}' then
        perform jobforge_private.refuse('JF005', 'The workflow has no jobs to retry',
            jsonb_build_object('id', p_id));
    end if;
    v_old_jobs := array(select n.job_id from unnest(v_nodes) as n order by n.place);
    perform jobforge_private.check_not_erased_job(e.id, e.flags)
       from (select j.id, j.flags from jobforge.jobs as j
              where j.tenant_id = v_tenant and j.id = any (v_old_jobs)
             union all
             select f.id, f.flags from jobforge.finished_jobs as f
              where f.tenant_id = v_tenant and f.id = any (v_old_jobs)) as e;
    v_new_jobs := array(select jobforge_private.nth_id(v_first_id, i)
                      from generate_series(1, cardinality(v_old_jobs)) as i);
    v_jobs := jobforge_private.build_retries(v_tenant, v_old_jobs, v_new_jobs);
    perform jobforge_private.insert_jobs(v_tenant, v_jobs, v_first_id);
    perform jobforge_private.link_parents(v_tenant, v_jobs, v_first_id, '{}', false);
    perform jobforge_private.replace_node_jobs(v_tenant, v_old_jobs, v_new_jobs);
    -- Retention may have deleted the workflow before it was locked.
    perform jobforge_private.lock_workflow(v_tenant, p_id, 'workflow');
    perform jobforge_private.cancel_rows(jobforge_private.lock_jobs(v_tenant, array(
        select n.job_id from unnest(v_nodes) as n where n.state = 'dead')), 'retried');
    perform jobforge_private.audit(v_tenant, 'workflow.retry', p_id::text,
        jsonb_build_object('from', p_from, 'jobs', cardinality(v_old_jobs)));
    return cardinality(v_old_jobs);
end $$;
