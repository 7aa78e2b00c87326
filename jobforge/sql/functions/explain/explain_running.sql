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
                then format('Its lease expired at %s, in an outage. Its worker has until %s to '
                            'report.', p_job.lease_expires_at, g.until)
                when e.is_expired
                then format('Its worker stopped renewing the lease, which ended at %s.',
                            p_job.lease_expires_at)
                when p_job.cancel_requested_at is not null
                then format('It was asked to stop at %s and has not ended yet.',
                            p_job.cancel_requested_at)
                else format('It runs since %s, attempt %s of %s.',
                            p_job.started_at, p_job.attempt, p_job.max_attempts) end,
           case when e.is_expired and g.until is not null
                then 'Nothing: it continues if its worker reports, else it is reaped after that.'
                when e.is_expired
                then 'Any live worker hands it on within seconds; start one if there is none.'
                when p_job.cancel_requested_at is not null
                then 'Its worker kills it after the grace period.'
                else 'Nothing: wait, or cancel it.' end,
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
