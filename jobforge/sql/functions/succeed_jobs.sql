-- Workers call this with the jobs that plainly succeeded, as most do: what complete_jobs does with
-- them, from arrays and in half of its time. The row of the finished job tells the attempt too, so
-- that has no row of its own (view all_attempts). p_results[i] may be null, as may all of it.
-- Returns the jobs that were not settled, which is none as a rule: complete_jobs tells why not, and
-- makes a failure of a result that cannot be stored. Waits as complete_jobs does. Raises JF002.
create or replace function jobforge.succeed_jobs(
    p_worker_id uuid,
    p_tenants uuid[],
    p_jobs uuid[],
    p_leases bigint[],
    p_results jsonb[] default null
) returns table (job_id uuid, lease bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_now timestamptz := jobforge.now();
    v_tenant uuid := jobforge.tenant();
    v_settled uuid[];
    v_ended jobforge.ended_job[];
    v_listening uuid[];
begin
    if p_worker_id is null
       or coalesce(cardinality(p_jobs), 0) not between 1 and 5000
       or cardinality(p_tenants) is distinct from cardinality(p_jobs)
       or cardinality(p_leases) is distinct from cardinality(p_jobs)
       or cardinality(p_results) <> cardinality(p_jobs) then
        perform jobforge.refuse('JF002', 'jobs must be 1 to 5000, of one worker, each with its '
            || 'tenant, its lease and its result', '{"field": "jobs"}');
    end if;
    if exists (select from jobforge.webhook_endpoints as w where w.enabled) then
        v_listening := jobforge.listening_tenants(p_tenants);
    end if;
    with given as materialized (
        select g.*, p_worker_id as worker_id
          from unnest(p_tenants, p_jobs, p_leases, p_results)
               as g(tenant_id, job_id, lease, result)
         where (v_tenant is null or g.tenant_id = v_tenant)
           -- Sixty-five levels take more bytes than that.
           and (g.result is null or pg_column_size(g.result) <= 500
                or pg_column_size(g.result) <= 1048576
                   and not jsonb_path_exists(g.result, 'strict $.**{65 to last}'))
         order by g.tenant_id, g.job_id
    ), ended as (
        delete from jobforge.jobs as j
         using given as g
         where j.tenant_id = g.tenant_id and j.id = g.job_id
           -- Not "state = 'running'", and not the worker as a constant: both would invite the
           -- planner to look for running jobs first, and for ours among them.
           and j.state || '' = 'running' and j.worker_id = g.worker_id and j.lease = g.lease
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
           array_agg(row(
               e.tenant_id, e.id, e.lease, 'running', 'succeeded', 'succeeded', e.definition,
               e.version, e.queue, e.priority, e.flags, e.attempt, e.max_attempts, e.created_at,
               e.started_at, v_now, e.source, e.source_ref, e.correlation_id, e.traceparent,
               e.artifact_ref, null, null, e.payload, e.new_result)::jobforge.ended_job)
               filter (where e.flags <> 0 or e.tenant_id = any (v_listening))
      into v_settled, v_ended
      from ended as e;
    if v_ended is not null then
        perform jobforge.follow_up(v_ended);
    end if;
    if cardinality(v_settled) = cardinality(p_jobs) then
        return;
    end if;
    return query
    select g.job_id, g.lease
      from unnest(p_jobs, p_leases) as g(job_id, lease)
     where v_settled is null or g.job_id <> all (v_settled);
end $$;
