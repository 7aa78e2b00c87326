-- Applications call this to cancel the unfinished jobs of a workflow and of its inner workflows, as
-- cancel_job does: a cancel is requested for running jobs. Dead jobs stay. Returns the workflow's
-- state, or `canceling` while jobs still run. Locks its jobs as cancel_jobs does. Raises JF001,
-- JF004, JF005 (it has finished), JF006, JF014, and JF012 outside READ COMMITTED.
create or replace function jobforge.cancel_workflow(
    p_id uuid,
    p_reason text default null,
    p_tenant_id uuid default null
) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    perform jobforge_private.require_read_committed('cancel_workflow');
    return jobforge_private.cancel_nodes(jobforge_private.require_tenant(p_tenant_id), p_id,
        'workflow', p_reason);
end $$;
