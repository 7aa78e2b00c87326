-- Explains a running job: its worker, its start, and whether its lease or a cancel is overdue.
-- After an outage, the reaper leaves expired leases for a while (grace_until). Called by
-- explain_job.
create or replace function jobforge_private.explain_running(
    p_job jobforge.all_jobs,
    p_now timestamptz
) returns table (code text, message text, remedy text, detail jsonb)
language sql stable
as $$
    select case when e.is_expired then 'lease_expired'
                when p_job.cancel_requested_at is not null then 'canceling' else 'running' end,
           case when e.is_expired and g.until is not null
                then format('The lease expired at %s, during an outage. The worker has until %s to '
                            'report.', p_job.lease_expires_at, g.until)
                when e.is_expired
                then format('The worker stopped renewing the lease, which expired at %s.',
                            p_job.lease_expires_at)
                when p_job.cancel_requested_at is not null
                then format('Asked to stop at %s, but still running.',
                            p_job.cancel_requested_at)
                else format('Running since %s, attempt %s of %s.',
                            p_job.started_at, p_job.attempt, p_job.max_attempts) end,
           case when e.is_expired and g.until is not null
                then 'Wait: the job continues if its worker reports in time, else it runs again.'
                when e.is_expired
                then 'Wait: a live worker frees the job within seconds. If none is live, start one.'
                when p_job.cancel_requested_at is not null
                then 'Wait: the worker kills the job after the grace period.'
                else 'Wait, or cancel the job.' end,
           jsonb_build_object('worker_id', p_job.worker_id, 'started_at', p_job.started_at,
                              'heartbeat_at', p_job.heartbeat_at,
                              'lease_expires_at', p_job.lease_expires_at)
           || case when e.is_expired and g.until is not null
                   then jsonb_build_object('grace_until', g.until) else '{}' end
      from (select p_job.lease_expires_at < p_now as is_expired) as e
      left join lateral (
           select jobforge_private.grace_until(
                      p_job.lease_expires_at, p_job.lease_expires_at - p_job.heartbeat_at,
                      r.outage_from, r.outage_until) as until
             from jobforge_private.last_outage(p_job.tenant_id, null) as r
            where not exists (select from jobforge.workers as w
                               where w.id = p_job.worker_id and w.stopped_at is not null)
      ) as g on g.until > p_now
$$;
