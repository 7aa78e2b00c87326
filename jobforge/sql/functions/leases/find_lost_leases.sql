-- Returns leases that have expired, as outcomes for settle_lost_jobs, or null. Their jobs and
-- heartbeats are then locked until the transaction ends, so no heartbeat can extend them. The
-- lease_expires_at of jobs with a live heartbeat becomes that of the heartbeat, so that they are
-- not found again. Skips jobs and heartbeats that other transactions hold. After an outage, workers
-- that have not unregistered get time to report (grace_until). With app.tenant_id set, only that
-- tenant's jobs. Called by reap_jobs.
create or replace function jobforge_private.find_lost_leases(
    p_now timestamptz,
    p_limit integer,
    p_outage_from timestamptz,
    p_outage_until timestamptz
) returns jsonb
language plpgsql
as $$
declare
    v_tenant uuid := jobforge.tenant();
    v_rows tid[];
    v_extended bigint;
    v_lost jsonb;
begin
    -- After a round that found only live jobs, search further, so that they do not hide lost ones.
    for v_round in 1 .. 10 loop
        v_rows := array(
            select j.ctid
              from jobforge.jobs as j
             where j.state = 'running' and j.lease_expires_at < p_now
               and (v_tenant is null or j.tenant_id = v_tenant)
             order by j.lease_expires_at
             limit p_limit
               for update skip locked);
        exit when v_rows = '{}';
        perform jobforge_private.reserve_heartbeats(v_rows);
        -- A later statement: it sees every heartbeat that was committed before the lock below.
        with checked as materialized (
            select j.ctid as row_id, j.tenant_id, j.id, j.worker_id, j.lease, h.expires_at,
                   h.lease = j.lease and h.expires_at > p_now as is_live,
                   case when h.lease = j.lease then greatest(j.lease_expires_at, h.expires_at)
                        else j.lease_expires_at end as ended_at,
                   coalesce(case when h.lease = j.lease then h.beat_at end, j.started_at) as beat_at
              from jobforge.jobs as j
             cross join lateral (
                select q.lease, q.beat_at, q.expires_at from jobforge.heartbeats as q
                 where q.tenant_id = j.tenant_id and q.job_id = j.id
                   for update skip locked) as h
             where j.ctid = any (v_rows)
        ), extended as (
            update jobforge.jobs as j
               set lease_expires_at = c.expires_at
              from checked as c
             where j.ctid = c.row_id and c.is_live
               and j.state || '' = 'running' and j.lease = c.lease
            returning 1
        ), lost as (
            select c.tenant_id, c.id, c.worker_id, c.lease
              from checked as c
             cross join lateral (select jobforge_private.grace_until(
                   c.ended_at, c.ended_at - c.beat_at,
                   p_outage_from, p_outage_until) as until) as g
             where not c.is_live
               and (g.until is null or g.until <= p_now
                    or exists (select from jobforge.workers as w
                                where w.id = c.worker_id and w.stopped_at is not null))
        )
        select (select count(*) from extended), (
            select jsonb_agg(jsonb_build_object(
                   'tenant_id', l.tenant_id, 'job_id', l.id, 'worker_id', l.worker_id,
                   'lease', l.lease, 'outcome', 'lease_lost', 'error', jsonb_build_object(
                       'type', 'LeaseLost', 'message', 'The worker stopped renewing its lease')))
              from lost as l)
          into v_extended, v_lost;
        exit when v_lost is not null or v_extended = 0;
    end loop;
    return v_lost;
end $$;
