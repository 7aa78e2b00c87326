-- Applications call this inside their transaction: the jobs of a workflow exist together if it
-- commits. p_workflow: name, nodes, and optionally input, correlation_id, on_success, on_failure,
-- on_complete. A node is a job as for enqueue_jobs, with a name, and with the names of its parents
-- as `after`; or it is an inner workflow. Fields: docs/sql.md. Returns the jobs by the path of
-- their nodes, and one row without a job for the workflow. Inserts all jobs or none. Raises JF001,
-- JF002, JF006 to JF010, JF014.
create or replace function jobforge.enqueue_workflow(
    p_workflow jsonb,
    p_tenant_id uuid default null
) returns table (workflow_id uuid, node text, job_id uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_id uuid := jobforge_private.uuid7();
begin
    perform jobforge_private.check_workflow(p_workflow);
    insert into jobforge.workflows (
           tenant_id, id, created_at, kind, name, correlation_id, created_by, input, callbacks)
    values (v_tenant, v_id, jobforge_private.now(), 'workflow',
            coalesce(p_workflow ->> 'name', 'workflow'), p_workflow ->> 'correlation_id',
            jobforge_private.actor(), p_workflow -> 'input',
            p_workflow - '{name,nodes,input,correlation_id}'::text[]);
    perform jobforge_private.insert_nodes(v_tenant, v_id, p_workflow -> 'nodes');
    return query
    select v_id, n.path, n.job_id from jobforge_private.list_nodes(v_tenant, v_id) as n
    union all
    select v_id, null, null;
end $$;
