-- Ends leases: the only way out of state running, for workers (complete_jobs) and for the reaper.
-- Each outcome names its job, worker and lease; a row changes only if it is running and all three
-- match (fencing).
--   succeeded                    -> succeeded (moved to finished_jobs)
--   canceled, or a cancel was requested and the attempt did not succeed -> canceled (moved)
--   failed, timed_out, crashed, lease_lost -> scheduled after its backoff or retry_in_s; dead if
--                                   `final` is set or the allowance is used up
--   snoozed                      -> scheduled at run_at or after retry_in_s, attempt not counted
--   released                     -> queued again immediately, attempt not counted
-- Every lease that ends is recorded as an attempt. Returns the jobs that matched. Runs the
-- follow-up work in the same transaction (follow_up). With app.tenant_id set, jobs of other tenants
-- do not match. Deletes in order of (tenant_id, id).
-- With p_are_held, the caller has locked the rows in an earlier statement: the following statements
-- must agree on whether a cancel was requested, and must not wait for locks. Without it, for
-- outcomes that are all successes, takes only jobs that no other transaction has locked, as
-- move_succeeded_jobs does.
create or replace function jobforge_private.settle_jobs(
    p_worker_id uuid,
    p_outcomes jsonb,
    p_are_held boolean default true
) returns table (tenant_id uuid, job_id uuid, lease bigint, state text)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_now timestamptz := jobforge_private.now();
    v_tenant uuid := jobforge.tenant();
    v_settled jobforge.settled_jobs;
    v_ended jobforge.ended_job[];
    v_listening uuid[] := '{}';
begin
    if exists (select from jobforge.webhook_endpoints as w where w.enabled) then
        v_listening := jobforge_private.listening_tenants(array(
            select (o ->> 'tenant_id')::uuid from jsonb_array_elements(p_outcomes) as o));
    end if;

    with given as materialized (
        select * from jobforge_private.read_outcomes(p_worker_id, p_outcomes) as o
         where v_tenant is null or o.tenant_id = v_tenant
         order by o.tenant_id, o.job_id
    ), ended as (
        delete from jobforge.jobs as j
         using given as g
         where j.tenant_id = g.tenant_id and j.id = g.job_id
           -- `state || ''`: see docs/query-plans.md.
           and j.state || '' = 'running' and j.worker_id = g.worker_id and j.lease = g.lease
           and (g.outcome in ('succeeded', 'canceled')
                or j.cancel_requested_at is not null and g.outcome <> 'succeeded')
           and (p_are_held
                or j.flags = 0 and j.tenant_id <> all (v_listening)
                   and (j.xmax = j.xmin or j.xmax = 0))
        returning j.tenant_id, j.id, j.lease, j.created_at, j.run_at, j.queued_at, j.started_at,
                  j.cancel_requested_at, j.expires_at, j.worker_id, j.retry_of, j.version,
                  j.attempt, j.max_attempts, j.allowance, j.timeout_s, j.priority, j.flags,
                  j.definition, j.queue, j.source, j.limit_key, j.idempotency_key, j.source_ref,
                  j.correlation_id, j.traceparent, j.created_by, j.artifact_ref,
                  j.tags, j.payload, g.outcome as outcome, g.result as new_result,
                  g.error as new_error, g.artifact_ref as new_artifact_ref,
                  g.exit_code, g.pid, g.peak_memory_bytes, g.cpu_ms, g.stdout_tail, g.stderr_tail,
                  jobforge_private.fingerprint(j.definition, g.error) as new_fingerprint,
                  case g.outcome when 'succeeded' then 'succeeded' else 'canceled' end as new_state,
                  case when g.outcome <> 'succeeded'
                       then coalesce(j.cancel_reason, g.reason) end as new_reason,
                  j.attempt - case when g.outcome in ('released', 'snoozed') then 1 else 0 end
                      as counted_attempt
    ), finished as (
        insert into jobforge.finished_jobs (
               tenant_id, id, lease, created_at, run_at, queued_at, started_at,
               cancel_requested_at, expires_at, finished_at, worker_id, retry_of, version, attempt,
               max_attempts, allowance, timeout_s, priority, flags, state, definition, queue,
               source, limit_key, idempotency_key, source_ref, correlation_id, traceparent,
               created_by, cancel_reason, fingerprint, artifact_ref, tags, error, payload, result)
        select e.tenant_id, e.id, e.lease, e.created_at, e.run_at, e.queued_at, e.started_at,
               e.cancel_requested_at, e.expires_at, v_now, e.worker_id, e.retry_of, e.version,
               e.counted_attempt, e.max_attempts, e.allowance, e.timeout_s, e.priority, e.flags,
               e.new_state, e.definition, e.queue, e.source, e.limit_key, e.idempotency_key,
               e.source_ref, e.correlation_id, e.traceparent, e.created_by, e.new_reason,
               e.new_fingerprint, coalesce(e.new_artifact_ref, e.artifact_ref), e.tags,
               e.new_error, e.payload, e.new_result
          from ended as e
    ), logged as (
        insert into jobforge.attempts (
               tenant_id, job_id, worker_id, lease, queued_at, started_at, ended_at,
               peak_memory_bytes, cpu_ms, version, attempt, exit_code, pid, outcome, state,
               definition, queue, fingerprint, error, stdout_tail, stderr_tail)
        select e.tenant_id, e.id, e.worker_id, e.lease, e.queued_at, e.started_at,
               greatest(v_now, e.started_at),
               e.peak_memory_bytes, e.cpu_ms, e.version, e.attempt, e.exit_code, e.pid, e.outcome,
               e.new_state, e.definition, e.queue, e.new_fingerprint, e.new_error,
               e.stdout_tail, e.stderr_tail
          from ended as e
    )
    select array_agg(e.tenant_id), array_agg(e.id), array_agg(e.lease), array_agg(e.new_state),
           array_agg(row(
               e.tenant_id, e.id, e.lease, 'running', e.new_state, e.outcome, e.definition,
               e.version, e.queue, e.priority, e.flags, e.counted_attempt, e.max_attempts,
               e.created_at, e.started_at, v_now, e.source, e.source_ref, e.correlation_id,
               e.traceparent, coalesce(e.new_artifact_ref, e.artifact_ref), e.new_reason,
               e.new_error, e.payload, e.new_result)::jobforge.ended_job)
               filter (where e.flags <> 0 or e.tenant_id = any (v_listening))
      into v_settled.tenants, v_settled.jobs, v_settled.leases, v_settled.states, v_ended
      from ended as e;
    return query
    select * from unnest(v_settled.tenants, v_settled.jobs, v_settled.leases, v_settled.states);
    if p_are_held
       and coalesce(cardinality(v_settled.jobs), 0) < jsonb_array_length(p_outcomes) then
        return query
        select *
          from jobforge_private.settle_unfinished_jobs(p_worker_id, p_outcomes, v_now, v_ended);
    elsif v_ended is not null then
        perform jobforge_private.follow_up(v_ended);
    end if;
end $$;
