-- Settles the attempts after which the job has finished: moves these jobs to finished_jobs. `ended`
-- are those with follow-up work, which the caller runs. Compares worker and lease, and locks, as
-- settle_jobs describes. Called by settle_jobs.
create or replace function jobforge_private.settle_finished_jobs(
    p_worker_id uuid,
    p_outcomes jsonb,
    p_now timestamptz,
    p_listening uuid[],
    p_are_held boolean,
    out settled jobforge.settled_jobs,
    out ended jobforge.ended_job[]
)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge.tenant();
begin
    with given as materialized (
        select * from jobforge_private.read_outcomes(p_worker_id, p_outcomes) as o
         where v_tenant is null or o.tenant_id = v_tenant
         order by o.tenant_id, o.job_id
    ), finished as (
        delete from jobforge.jobs as j
         using given as g
         where j.tenant_id = g.tenant_id and j.id = g.job_id
           -- `state || ''`: see docs/query-plans.md.
           and j.state || '' = 'running' and j.worker_id = g.worker_id and j.lease = g.lease
           and (g.outcome in ('succeeded', 'canceled')
                or j.cancel_requested_at is not null and g.outcome <> 'succeeded')
           and (p_are_held
                or j.flags = 0 and j.tenant_id <> all (p_listening)
                   and (j.xmax = j.xmin or j.xmax = 0))
        returning j.tenant_id, j.id, j.lease, j.created_at, j.run_at, j.queued_at, j.started_at,
                  j.cancel_requested_at, j.expires_at, j.worker_id, j.retry_of, j.version,
                  j.attempt, j.max_attempts, j.allowance, j.timeout_s, j.priority, j.flags,
                  j.definition, j.queue, j.source, j.limit_key, j.idempotency_key, j.source_ref,
                  j.correlation_id, j.traceparent, j.created_by, j.tags, j.payload,
                  g.outcome, g.result, g.error, g.exit_code, g.pid, g.peak_memory_bytes, g.cpu_ms,
                  g.stdout_tail, g.stderr_tail,
                  coalesce(g.artifact_ref, j.artifact_ref) as artifact_ref,
                  jobforge_private.fingerprint(j.definition, g.error) as fingerprint,
                  case g.outcome when 'succeeded' then 'succeeded' else 'canceled' end as state,
                  case when g.outcome <> 'succeeded'
                       then coalesce(j.cancel_reason, g.reason) end as cancel_reason,
                  -- A snoozed or released attempt of a job that is canceled does not count.
                  j.attempt - case when g.outcome in ('released', 'snoozed') then 1 else 0 end
                      as counted_attempt
    ), moved as (
        insert into jobforge.finished_jobs (
               tenant_id, id, lease, created_at, run_at, queued_at, started_at,
               cancel_requested_at, expires_at, finished_at, worker_id, retry_of, version, attempt,
               max_attempts, allowance, timeout_s, priority, flags, state, definition, queue,
               source, limit_key, idempotency_key, source_ref, correlation_id, traceparent,
               created_by, cancel_reason, fingerprint, artifact_ref, tags, error, payload, result)
        select f.tenant_id, f.id, f.lease, f.created_at, f.run_at, f.queued_at, f.started_at,
               f.cancel_requested_at, f.expires_at, p_now, f.worker_id, f.retry_of, f.version,
               f.counted_attempt, f.max_attempts, f.allowance, f.timeout_s, f.priority, f.flags,
               f.state, f.definition, f.queue, f.source, f.limit_key, f.idempotency_key,
               f.source_ref, f.correlation_id, f.traceparent, f.created_by, f.cancel_reason,
               f.fingerprint, f.artifact_ref, f.tags, f.error, f.payload, f.result
          from finished as f
    ), logged as (
        insert into jobforge.attempts (
               tenant_id, job_id, worker_id, lease, queued_at, started_at, ended_at,
               peak_memory_bytes, cpu_ms, version, attempt, exit_code, pid, outcome, state,
               definition, queue, fingerprint, error, stdout_tail, stderr_tail)
        select f.tenant_id, f.id, f.worker_id, f.lease, f.queued_at, f.started_at,
               greatest(p_now, f.started_at),
               f.peak_memory_bytes, f.cpu_ms, f.version, f.attempt, f.exit_code, f.pid, f.outcome,
               f.state, f.definition, f.queue, f.fingerprint, f.error, f.stdout_tail, f.stderr_tail
          from finished as f
    )
    select array_agg(f.tenant_id), array_agg(f.id), array_agg(f.lease), array_agg(f.state),
           array_agg(jobforge_private.to_ended_job(
               p_tenant_id => f.tenant_id, p_id => f.id, p_lease => f.lease, p_state => f.state,
               p_definition => f.definition, p_version => f.version, p_queue => f.queue,
               p_priority => f.priority, p_flags => f.flags, p_attempt => f.counted_attempt,
               p_max_attempts => f.max_attempts, p_created_at => f.created_at,
               p_started_at => f.started_at, p_ended_at => p_now, p_source => f.source,
               p_source_ref => f.source_ref, p_correlation_id => f.correlation_id,
               p_traceparent => f.traceparent, p_artifact_ref => f.artifact_ref,
               p_payload => f.payload, p_outcome => f.outcome, p_reason => f.cancel_reason,
               p_error => f.error, p_result => f.result))
               filter (where f.flags <> 0 or f.tenant_id = any (p_listening))
      into settled.tenants, settled.jobs, settled.leases, settled.states, ended
      from finished as f;
end $$;
