-- Workers call this with the jobs that plainly succeeded, as most do: what complete_jobs does with
-- them, from arrays and in half of its time. The row of the finished job tells the attempt too, so
-- that has no row of its own (view all_attempts). p_results[i] may be null, as may all of it.
-- Returns the jobs that were not settled, which is none as a rule: complete_jobs tells why not, and
-- makes a failure of a result that cannot be stored. Never waits for another transaction, as
-- complete_jobs: a job that is locked, or whose end needs a row that is locked, is among those not
-- settled. Raises JF002.
-- Raises JF012 outside READ COMMITTED.
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
            'jobs must be 1 to 5000, of one worker, each with its '
            || 'tenant, its lease and its result', '{"field": "jobs"}');
    end if;
    if exists (select from jobforge.webhook_endpoints as w where w.enabled) then
        v_listening := jobforge_private.listening_tenants(p_tenants);
    end if;
    v_settled := jobforge_private.move_succeeded_jobs(
        p_worker_id, p_tenants, p_jobs, p_leases, p_results, v_listening, false);
    if cardinality(v_settled) = cardinality(p_jobs) then
        return;
    end if;
    -- The end of these concerns other rows, such as jobs that wait for them. A subtransaction, so
    -- that those above stay settled when one of these rows is held by another transaction.
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
