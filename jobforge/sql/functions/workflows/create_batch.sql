-- Applications call this inside their transaction to enqueue jobs that belong together, as
-- enqueue_jobs does. p_batch, all optional: name, input, correlation_id; on_success, on_failure and
-- on_complete: a job each, enqueued once when the batch finishes like that; open: true keeps it
-- unfinished until close_batch. An element whose idempotency key is held does not join the batch.
-- Returns the batch with each job, and once without a job. Raises what enqueue_jobs raises.
create or replace function jobforge.create_batch(
    p_batch jsonb default '{}',
    p_jobs jsonb default '[]',
    p_tenant_id uuid default null
) returns table (batch_id uuid, index integer, job_id uuid, status text)
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
    perform jobforge_private.check_batch(p_batch);
    insert into jobforge.workflows (
           tenant_id, id, created_at, is_open, kind, name, correlation_id, created_by, input,
           callbacks)
    values (v_tenant, v_id, jobforge_private.now(), coalesce((p_batch ->> 'open')::boolean, false),
            'batch', p_batch ->> 'name', p_batch ->> 'correlation_id', jobforge_private.actor(),
            p_batch -> 'input', p_batch - '{name,input,correlation_id,open}'::text[]);
    return query
    select v_id, a.index, a.job_id, a.status
      from jobforge_private.insert_batch_jobs(v_tenant, v_id, p_jobs) as a
    union all
    select v_id, null, null, null;
    perform jobforge_private.advance_workflow(v_tenant, v_id);
end $$;
