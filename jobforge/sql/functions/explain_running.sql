-- explain_job for a job that runs: with whom, since when, and whether its lease or a cancel is
-- overdue.
create or replace function jobforge.explain_running(p_job jobforge.all_jobs, p_now timestamptz)
returns table (code text, message text, remedy text, detail jsonb)
language sql stable
as $$
    select case when p_job.lease_expires_at < p_now then 'lease_expired'
                when p_job.cancel_requested_at is not null then 'canceling' else 'running' end,
           case when p_job.lease_expires_at < p_now
                then format('Its worker stopped renewing the lease, which ended at %s.',
                            p_job.lease_expires_at)
                when p_job.cancel_requested_at is not null
                then format('It was asked to stop at %s and has not ended yet.',
                            p_job.cancel_requested_at)
                else format('It runs since %s, attempt %s of %s.',
                            p_job.started_at, p_job.attempt, p_job.max_attempts) end,
           case when p_job.lease_expires_at < p_now
                then 'Any live worker hands it on within seconds; start one if there is none.'
                when p_job.cancel_requested_at is not null
                then 'Its worker kills it after the grace period.'
                else 'Nothing: wait, or cancel it.' end,
           jsonb_build_object('worker_id', p_job.worker_id, 'started_at', p_job.started_at,
                              'heartbeat_at', p_job.heartbeat_at,
                              'lease_expires_at', p_job.lease_expires_at)
$$;
