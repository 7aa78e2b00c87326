-- Moves jobs that plainly succeeded to finished_jobs and runs their follow-up work (follow_up).
-- Returns the IDs of the moved jobs. Takes only jobs whose row no other transaction has locked, and
-- without p_with_linked only those without follow-up work. It reads xmax to see whether a row is
-- locked, because its own lock with `skip locked` would cost an eighth of the statement; if another
-- transaction locks the row between the check and the delete, the delete waits for it, up to
-- lock_timeout. Locks the jobs in order of (tenant_id, id). Called by succeed_jobs.
create or replace function jobforge_private.move_succeeded_jobs(
    p_worker_id uuid,
    p_tenants uuid[],
    p_jobs uuid[],
    p_leases bigint[],
    p_results jsonb[],
    p_listening uuid[],
    p_with_linked boolean
) returns uuid[]
language plpgsql
as $$
#variable_conflict use_column
declare
    v_now timestamptz := jobforge_private.now();
    v_tenant uuid := jobforge.tenant();
    v_settled uuid[];
    v_ended jobforge.ended_job[];
begin
    with given as materialized (
        select g.*, p_worker_id as worker_id
          from unnest(p_tenants, p_jobs, p_leases, p_results)
               as g(tenant_id, job_id, lease, result)
         where (v_tenant is null or g.tenant_id = v_tenant)
           and jobforge_private.is_storable_result(g.result)
         order by g.tenant_id, g.job_id
    ), ended as (
        delete from jobforge.jobs as j
         using given as g
         where j.tenant_id = g.tenant_id and j.id = g.job_id
           -- `state || ''` and the worker as a column: see docs/query-plans.md.
           and j.state || '' = 'running' and j.worker_id = g.worker_id and j.lease = g.lease
           -- No transaction holds a lock, or the transaction that wrote this version of the row had
           -- it.
           and (j.xmax = j.xmin or j.xmax = 0)
           and (p_with_linked or j.flags = 0 and j.tenant_id <> all (p_listening))
        returning j.tenant_id, j.id, j.lease, j.created_at, j.run_at, j.queued_at, j.started_at,
                  j.cancel_requested_at, j.expires_at, j.retry_of, j.version, j.attempt,
                  j.max_attempts, j.allowance, j.timeout_s, j.priority, j.flags, j.definition,
                  j.queue, j.source, j.limit_key, j.idempotency_key, j.source_ref,
                  j.correlation_id, j.traceparent, j.created_by, j.artifact_ref, j.tags, j.payload,
                  g.result as new_result
    ), finished as (
        insert into jobforge.finished_jobs (
               tenant_id, id, lease, created_at, run_at, queued_at, started_at,
               cancel_requested_at, expires_at, finished_at, txid, worker_id, retry_of, version,
               attempt, max_attempts, allowance, timeout_s, priority, flags, state, definition,
               queue, source, limit_key, idempotency_key, source_ref, correlation_id, traceparent,
               created_by, artifact_ref, tags, payload, result)
        select e.tenant_id, e.id, e.lease, e.created_at, nullif(e.run_at, e.created_at),
               nullif(e.queued_at, e.run_at), e.started_at, e.cancel_requested_at, e.expires_at,
               greatest(v_now, e.started_at), pg_current_xact_id(), p_worker_id, e.retry_of,
               e.version, e.attempt, e.max_attempts, nullif(e.allowance, e.max_attempts),
               e.timeout_s, e.priority, e.flags, 'succeeded', e.definition, e.queue, e.source,
               e.limit_key, e.idempotency_key, e.source_ref, e.correlation_id, e.traceparent,
               e.created_by, e.artifact_ref, e.tags, e.payload, e.new_result
          from ended as e
    )
    select array_agg(e.id),
           array_agg(jobforge_private.to_ended_job(
               p_tenant_id => e.tenant_id, p_id => e.id, p_lease => e.lease,
               p_state => 'succeeded', p_definition => e.definition, p_version => e.version,
               p_queue => e.queue, p_priority => e.priority, p_flags => e.flags,
               p_attempt => e.attempt, p_max_attempts => e.max_attempts,
               p_created_at => e.created_at, p_started_at => e.started_at, p_ended_at => v_now,
               p_source => e.source, p_source_ref => e.source_ref,
               p_correlation_id => e.correlation_id, p_traceparent => e.traceparent,
               p_artifact_ref => e.artifact_ref, p_payload => e.payload, p_outcome => 'succeeded',
               p_result => e.new_result))
               filter (where e.flags <> 0 or e.tenant_id = any (p_listening))
      into v_settled, v_ended
      from ended as e;
    if v_ended is not null then
        perform jobforge_private.follow_up(v_ended);
    end if;
    return v_settled;
end $$;
