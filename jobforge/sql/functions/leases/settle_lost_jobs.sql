-- Settles lost leases for the reaper: all at once or, if that fails, in parts. A job whose
-- completion needs a row that another transaction holds, or which cannot be settled at all, is left
-- to the next call, so that it does not delay the others. The caller has locked the jobs. Called by
-- reap_jobs.
create or replace function jobforge_private.settle_lost_jobs(p_lost jsonb)
returns table (tenant_id uuid, job_id uuid, lease bigint, state text)
language plpgsql
set lock_timeout = '100ms'
as $$
#variable_conflict use_column
begin
    begin
        return query
        select s.tenant_id, s.job_id, s.lease, s.state
          from jobforge_private.settle_jobs(null, p_lost) as s;
        return;
    exception
        when transaction_rollback or insufficient_resources or operator_intervention then raise;
        when others then null;
    end;
    return query
    select s.tenant_id, s.job_id, s.lease, s.state
      from jobforge_private.settle_in_parts(null, p_lost) as s;
end $$;
