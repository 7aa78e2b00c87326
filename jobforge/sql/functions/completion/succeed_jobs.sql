-- Workers call this with jobs that plainly succeeded, as most do. Has the effect of complete_jobs
-- in half of its time, because it takes arrays. The row of the finished job also records the
-- attempt (view all_attempts). p_results may be null, and so may each of its elements. Returns the
-- jobs that were not settled, as a rule none: complete_jobs reports why, and turns a result that
-- cannot be stored into a failure. Never waits for another transaction; a job that is locked, or
-- whose completion needs a locked row, is among those not settled. Locks the jobs in order of
-- (tenant_id, id). Raises JF002, and JF012 outside READ COMMITTED.
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
set lock_timeout = '100ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_settled uuid[];
    v_listening uuid[] := '{}';
begin
    perform jobforge_private.require_read_committed('succeed_jobs');
    if p_worker_id is null
       or coalesce(cardinality(p_jobs), 0) not between 1 and 5000
       or cardinality(p_tenants) is distinct from cardinality(p_jobs)
       or cardinality(p_leases) is distinct from cardinality(p_jobs)
       or cardinality(p_results) <> cardinality(p_jobs) then
        perform jobforge_private.refuse('JF002',
            'jobs must be 1 to 5000 jobs of one worker, each with a '
            || 'tenant, a lease and a result', '{"field": "jobs"}');
    end if;
    if exists (select from jobforge.webhook_endpoints as w where w.enabled) then
        v_listening := jobforge_private.listening_tenants(p_tenants);
    end if;
    v_settled := jobforge_private.move_succeeded_jobs(
        p_worker_id, p_tenants, p_jobs, p_leases, p_results, v_listening, false);
    if cardinality(v_settled) = cardinality(p_jobs) then
        return;
    end if;
    -- The completion of the others needs more rows, such as jobs that wait for them. A
    -- subtransaction, so that the jobs above stay settled if another transaction holds one of these
    -- rows.
    begin
        v_settled := v_settled || jobforge_private.move_succeeded_jobs(
            p_worker_id, p_tenants, p_jobs, p_leases, p_results, v_listening, true);
    exception
        when lock_not_available then null;
    end;
    if cardinality(v_settled) is distinct from cardinality(p_jobs) then
        v_settled := v_settled || array(
            select s.job_id
              from jobforge_private.settle_free_jobs(p_worker_id, (
                   select jsonb_agg(jsonb_build_object(
                              'tenant_id', g.tenant_id, 'job_id', g.job_id, 'lease', g.lease,
                              'outcome', 'succeeded', 'result', g.result))
                     from unnest(p_tenants, p_jobs, p_leases, p_results)
                          as g(tenant_id, job_id, lease, result)
                    where g.job_id not in (select unnest(v_settled))
                      and jobforge_private.is_storable_result(g.result))) as s);
    end if;
    return query
    select g.job_id, g.lease
      from unnest(p_jobs, p_leases) as g(job_id, lease)
     where g.job_id not in (select unnest(v_settled));
end $$;
