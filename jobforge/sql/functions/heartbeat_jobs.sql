-- Workers call this on every beat, once for all their running jobs ({tenant_id, job_id, lease}
-- each). Extends the leases and says of each job: `ok`, `cancel` (somebody asked for it), `lost`.
-- The row without a job_id speaks of the worker itself: `ok`, `drain`, `stop`, or `unknown` when
-- it is not registered. Never waits: a job that is being settled at this moment answers `ok`.
-- p_memory_bytes is what the worker's process occupies and p_clock the time by its own clock: how
-- far that is off is kept, the time that the call was under way included. Raises JF002.
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
    v_rows tid[];
begin
    perform jobforge.check_tokens(p_worker_id, p_jobs);
    if p_lease_s is null or not p_lease_s between 1 and 3600 then
        perform jobforge.refuse('JF002', 'a lease lasts 1 to 3600 seconds', '{"field": "lease_s"}');
    end if;
    v_rows := array(
        select j.ctid
          from jobforge.read_outcomes(p_worker_id, p_jobs) as t
          join jobforge.jobs as j on j.tenant_id = t.tenant_id and j.id = t.job_id
         where j.state || '' = 'running' and j.worker_id = p_worker_id and j.lease = t.lease
           and (v_tenant is null or j.tenant_id = v_tenant)
           for update of j skip locked);
    v_now := jobforge.now();
    update jobforge.jobs as j
       set heartbeat_at = v_now, lease_expires_at = v_now + make_interval(secs => p_lease_s)
     where j.ctid = any (v_rows) and j.state || '' = 'running' and j.worker_id = p_worker_id;

    return query
    select t.job_id, t.lease, case
               when j.lease is null then 'lost'
               when j.cancel_requested_at is not null then 'cancel'
               else 'ok' end
      from jobforge.read_outcomes(p_worker_id, p_jobs) as t
      left join jobforge.jobs as j
        on j.tenant_id = t.tenant_id and j.id = t.job_id and j.state || '' = 'running'
       and j.worker_id = p_worker_id and j.lease = t.lease
       and (v_tenant is null or j.tenant_id = v_tenant);

    update jobforge.workers as w
       set heartbeat_at = v_now, running = jsonb_array_length(p_jobs),
           memory_bytes = p_memory_bytes,
           clock_skew_s = case when isfinite(p_clock)
                               then date_part('epoch', p_clock - v_now) end
     where w.id = p_worker_id and (v_tenant is null or w.tenant_id = v_tenant)
    returning null::uuid, null::bigint, coalesce(w.command, 'ok') into job_id, lease, status;
    if not found then
        status := 'unknown';
    end if;
    return next;
end $$;
