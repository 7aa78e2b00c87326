-- Enqueues the jobs of triggers, all at once or, if that fails, one by one: a job that is refused
-- does not stop the others. Returns one row per job, counted from 0: `created`, `existing` (another
-- job holds its idempotency key) or `failed` with the reason. p_jobs are as for enqueue_jobs;
-- p_refs is what each job comes from. Errors that another attempt may avoid (a deadlock, a lock
-- timeout, a full disk) are raised. Called by enqueue_deliveries.
create or replace function jobforge_private.try_enqueue_triggered(
    p_tenant_id uuid,
    p_jobs jsonb,
    p_source text,
    p_refs text[]
) returns table (index integer, job_id uuid, status text, reason text)
language plpgsql
as $$
begin
    begin
        return query
        select t.index, t.job_id, t.status, null::text
          from jobforge_private.enqueue_triggered(p_tenant_id, p_jobs, p_source, p_refs) as t;
        return;
    exception
        when transaction_rollback or object_not_in_prerequisite_state or insufficient_resources
            or operator_intervention then raise;
        when others then
            -- The job that failed fails again below, alone.
            if jsonb_array_length(p_jobs) = 1 then
                return query select 0, null::uuid, 'failed', sqlerrm;
                return;
            end if;
    end;
    for v_index in 0 .. jsonb_array_length(p_jobs) - 1 loop
        return query
        select v_index, t.job_id, t.status, t.reason
          from jobforge_private.try_enqueue_triggered(
                   p_tenant_id, jsonb_build_array(p_jobs -> v_index), p_source,
                   p_refs[v_index + 1:v_index + 1]) as t;
    end loop;
end $$;
