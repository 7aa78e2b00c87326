-- Workers call this periodically, once for all their running jobs ({tenant_id, job_id, lease}
-- each). Extends the leases and returns the status of each job:
--   ok      the lease was extended
--   cancel  the lease was extended, and a cancel of the job was requested
--   held    the job runs under this lease, but another transaction holds its heartbeat: the lease
--           was not extended. The worker continues with the job, does not count the lease as
--           extended, and calls again after about a second. A requested cancel is reported then
--   lost    the job does not run under this lease
-- The row without a job_id is for the worker itself: `ok`, `drain`, `stop`, or `unknown` if it is
-- not registered. p_memory_bytes is the memory of the worker's process. p_clock is the worker's
-- time: its difference to the database's is stored, which includes the time that the call took to
-- arrive.
-- Locks rows of heartbeats and never of jobs, so a transaction that holds a job does not stop its
-- heartbeats. The reaper also locks the heartbeat before it ends a lease. Waits only for a first
-- heartbeat that another transaction is inserting, 100 ms at most. Raises JF002, and JF012 outside
-- READ COMMITTED.
create or replace function jobforge.heartbeat_jobs(
    p_worker_id uuid,
    p_jobs jsonb default '[]',
    p_lease_s double precision default 30,
    p_memory_bytes bigint default null,
    p_clock timestamptz default null
) returns table (job_id uuid, lease bigint, status text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_now timestamptz;
    v_tenant uuid := jobforge.tenant();
    v_tenants uuid[];
    v_jobs uuid[];
    v_leases bigint[];
    v_rows tid[];
    v_row_leases bigint[];
begin
    perform jobforge_private.require_read_committed('heartbeat_jobs');
    perform jobforge_private.check_leases(p_worker_id, p_jobs);
    if p_lease_s is null or not p_lease_s between 1 and 3600 then
        perform jobforge_private.refuse('JF002', 'lease_s must be between 1 and 3600',
            '{"field": "lease_s"}');
    end if;
    -- `limit 1` enforces one index lookup per job, whatever the statistics say.
    select array_agg(h.tenant_id), array_agg(h.id), array_agg(h.lease)
      into v_tenants, v_jobs, v_leases
      from (select t.tenant_id, t.job_id, t.lease
              from jobforge_private.read_outcomes(p_worker_id, p_jobs) as t
             order by t.tenant_id, t.job_id) as t
     cross join lateral (
        select j.tenant_id, j.id, j.lease from jobforge.jobs as j
         where j.tenant_id = t.tenant_id and j.id = t.job_id
           and j.state || '' = 'running' and j.worker_id = p_worker_id and j.lease = t.lease
           and (v_tenant is null or j.tenant_id = v_tenant)
         limit 1) as h;

    select array_agg(h.row_id), array_agg(g.lease)
      into v_rows, v_row_leases
      from unnest(v_tenants, v_jobs, v_leases) as g(tenant_id, job_id, lease)
     cross join lateral (
        select q.ctid as row_id from jobforge.heartbeats as q
         where q.tenant_id = g.tenant_id and q.job_id = g.job_id and q.lease <= g.lease
           for update skip locked) as h;
    v_now := jobforge_private.now();
    update jobforge.heartbeats as h
       set worker_id = p_worker_id, lease = l.lease, beat_at = v_now,
           expires_at = v_now + make_interval(secs => p_lease_s)
      from unnest(v_rows, v_row_leases) as l(row_id, lease)
     where h.ctid = l.row_id;
    if cardinality(v_jobs) > coalesce(cardinality(v_rows), 0) then
        perform jobforge_private.insert_heartbeats(
            p_worker_id, v_tenants, v_jobs, v_leases, v_now, make_interval(secs => p_lease_s));
    end if;

    -- A later statement: it sees the leases that the reaper ended before this transaction locked
    -- the heartbeats.
    return query
    select t.job_id, t.lease, case
               when r.lease is null then 'lost'
               when h.is_extended is null then 'held'
               when r.cancel_requested_at is not null then 'cancel'
               else 'ok' end
      from jobforge_private.read_outcomes(p_worker_id, p_jobs) as t
      left join lateral (
        select j.lease, j.cancel_requested_at from jobforge.jobs as j
         where j.tenant_id = t.tenant_id and j.id = t.job_id
           and j.state || '' = 'running' and j.worker_id = p_worker_id and j.lease = t.lease
           and (v_tenant is null or j.tenant_id = v_tenant)
         limit 1) as r on true
      left join lateral (
        select true as is_extended from jobforge.heartbeats as q
         where q.tenant_id = t.tenant_id and q.job_id = t.job_id and q.lease = r.lease
           and q.worker_id = p_worker_id and q.beat_at = v_now
         limit 1) as h on true;

    -- Skips the worker's row if another transaction holds it, such as an operator's: leases matter
    -- more.
    update jobforge.workers as w
       set heartbeat_at = v_now, live_until = v_now + make_interval(secs => p_lease_s),
           running = jsonb_array_length(p_jobs),
           memory_bytes = p_memory_bytes,
           clock_skew_s = case when isfinite(p_clock)
                               then date_part('epoch', p_clock - v_now) end
     where w.ctid = any (array(
           select k.ctid from jobforge.workers as k
            where k.id = p_worker_id and (v_tenant is null or k.tenant_id = v_tenant)
              for update skip locked));
    status := coalesce((
        select coalesce(w.command, 'ok') from jobforge.workers as w
         where w.id = p_worker_id and (v_tenant is null or w.tenant_id = v_tenant)), 'unknown');
    return next;
end $$;
