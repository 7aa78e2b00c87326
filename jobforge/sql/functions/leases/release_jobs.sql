-- Workers call this to release jobs that they did not finish: queued again immediately, the attempt
-- not counted. p_jobs is an array of {tenant_id, job_id, lease}. Returns what complete_jobs
-- returns. Raises JF002, and JF012 outside READ COMMITTED.
create or replace function jobforge.release_jobs(p_worker_id uuid, p_jobs jsonb)
returns table (job_id uuid, lease bigint, status text, state text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform jobforge_private.require_read_committed('release_jobs');
    perform jobforge_private.check_leases(p_worker_id, p_jobs);
    return query
    select c.job_id, c.lease, c.status, c.state
      from jobforge.complete_jobs(p_worker_id, (
               select coalesce(jsonb_agg(j.token || '{"outcome": "released"}'), '[]')
                 from jsonb_array_elements(p_jobs) as j(token))) as c;
end $$;
