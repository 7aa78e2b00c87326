-- Inserts the first heartbeats of jobs that have none, in the order of the arrays. The reaper, or
-- the same worker over another connection, may be inserting one of them: waits 100 ms for it, and
-- then inserts none. Called by heartbeat_jobs.
create or replace function jobforge_private.insert_heartbeats(
    p_worker_id uuid,
    p_tenants uuid[],
    p_jobs uuid[],
    p_leases bigint[],
    p_now timestamptz,
    p_lease interval
) returns void
language plpgsql
set lock_timeout = '100ms'
as $$
begin
    insert into jobforge.heartbeats (tenant_id, job_id, worker_id, lease, beat_at, expires_at)
    select g.tenant_id, g.job_id, p_worker_id, g.lease, p_now, p_now + p_lease
      from unnest(p_tenants, p_jobs, p_leases) as g(tenant_id, job_id, lease)
      left join lateral (
        select true as is_present from jobforge.heartbeats as q
         where q.tenant_id = g.tenant_id and q.job_id = g.job_id
         limit 1) as h on true
     where h.is_present is null
        on conflict do nothing;
exception
    when lock_not_available then null;
end $$;
