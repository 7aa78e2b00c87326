-- Settles jobs whose completion needs other rows: jobs that wait for them, their workflow, jobs
-- that they gather, a webhook endpoint. Settles all at once, or in parts if another transaction
-- holds one of these rows: a job that needs a held row is then not settled and not returned. Waits
-- for such a row for 0.1 seconds, and for 0.01 seconds in each part. The caller has locked the
-- jobs. Called by settle_free_jobs.
create or replace function jobforge_private.settle_linked_jobs(p_worker_id uuid, p_outcomes jsonb)
returns table (tenant_id uuid, job_id uuid, lease bigint, state text)
language plpgsql
set lock_timeout = '100ms'
as $$
#variable_conflict use_column
begin
    begin
        return query
        select s.tenant_id, s.job_id, s.lease, s.state
          from jobforge_private.settle_jobs(p_worker_id, p_outcomes) as s;
        return;
    exception
        when lock_not_available then null;
    end;
    return query
    select s.tenant_id, s.job_id, s.lease, s.state
      from jobforge_private.settle_in_parts(p_worker_id, p_outcomes) as s;
end $$;
