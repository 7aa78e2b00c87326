-- Cancels jobs that are not running: moves them to finished_jobs and runs their follow-up work.
-- Returns how many. The caller has locked the rows.
create or replace function jobforge_private.cancel_rows(p_rows tid[], p_reason text) returns bigint
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_moved bigint;
    v_ended jobforge.ended_job[];
    v_listening uuid[];
begin
    if exists (select from jobforge.webhook_endpoints as w where w.enabled) then
        v_listening := jobforge_private.listening_tenants(array(
            select j.tenant_id from jobforge.jobs as j where j.ctid = any (p_rows)));
    end if;
    with ended as (
        delete from jobforge.jobs as j
         where j.ctid = any (p_rows) and j.state in ('scheduled', 'blocked', 'queued', 'dead')
        returning j.*
    ), moved as (
        insert into jobforge.finished_jobs (
               tenant_id, id, lease, created_at, run_at, queued_at, started_at,
               cancel_requested_at, expires_at, finished_at, worker_id, retry_of, version, attempt,
               max_attempts, allowance, timeout_s, priority, flags, state, definition, queue,
               source, limit_key, idempotency_key, source_ref, correlation_id, traceparent,
               created_by, cancel_reason, fingerprint, artifact_ref, tags, error, payload, result)
        select e.tenant_id, e.id, e.lease, e.created_at, e.run_at, e.queued_at, e.started_at,
               v_now, e.expires_at, v_now, null, e.retry_of, e.version, e.attempt,
               e.max_attempts, e.allowance, e.timeout_s, e.priority, e.flags, 'canceled',
               e.definition, e.queue, e.source, e.limit_key, e.idempotency_key, e.source_ref,
               e.correlation_id, e.traceparent, e.created_by, p_reason, e.fingerprint,
               e.artifact_ref, e.tags, e.error, e.payload, null
          from ended as e
    )
    select count(*),
           array_agg(jobforge_private.to_ended_job(
               p_tenant_id => e.tenant_id, p_id => e.id, p_lease => e.lease,
               p_state => 'canceled', p_definition => e.definition, p_version => e.version,
               p_queue => e.queue, p_priority => e.priority, p_flags => e.flags,
               p_attempt => e.attempt, p_max_attempts => e.max_attempts,
               p_created_at => e.created_at, p_started_at => e.started_at, p_ended_at => v_now,
               p_source => e.source, p_source_ref => e.source_ref,
               p_correlation_id => e.correlation_id, p_traceparent => e.traceparent,
               p_artifact_ref => e.artifact_ref, p_payload => e.payload, p_was => e.state,
               p_reason => p_reason, p_error => e.error))
               filter (where e.flags <> 0 or e.tenant_id = any (v_listening))
      into v_moved, v_ended
      from ended as e;
    if v_ended is not null then
        perform jobforge_private.follow_up(v_ended);
    end if;
    return v_moved;
end $$;
