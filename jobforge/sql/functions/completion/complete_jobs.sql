-- Workers call this with all outcomes since the last call. Returns one row per outcome: its status,
-- and the state that the job went to.
--   ok    the job is settled
--   lost  the lease has ended
--   busy  the worker still holds the lease, but another transaction has locked the job or a row
--         that its completion needs (a job that waits for it, its workflow); the worker keeps the
--         lease and sends the outcome again soon
-- One invalid outcome does not fail the others, and a busy one does not delay them: the function
-- waits for locks only a moment (settle_linked_jobs). A repeated completion, after the reply to
-- COMMIT was lost, returns `ok` again if its outcome is the same, and `lost` otherwise. Fields:
-- docs/sql.md. Locks the jobs in order of (tenant_id, id). Raises JF002 if p_outcomes cannot be
-- read, and JF012 outside READ COMMITTED.
create or replace function jobforge.complete_jobs(p_worker_id uuid, p_outcomes jsonb)
returns table (job_id uuid, lease bigint, status text, state text)
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
    v_start timestamptz := jobforge_private.now();
    v_tenant uuid := jobforge.tenant();
    v_settled bigint := 0;
    v_more bigint;
begin
    perform jobforge_private.require_read_committed('complete_jobs');
    if p_worker_id is null or jsonb_typeof(p_outcomes) is distinct from 'array'
       or jsonb_array_length(p_outcomes) > 5000 then
        perform jobforge_private.refuse('JF002',
            'outcomes must be an array of at most 5000 outcomes of one worker',
            '{"field": "outcomes"}');
    end if;
    p_outcomes := jobforge_private.fail_unbounded_outcomes(p_outcomes);
    -- If all outcomes are successes that can be stored, settle without locking the jobs first.
    if not (jsonb_path_exists(p_outcomes,
                '$[*] ? (!(@.outcome == "succeeded") || exists(@.retry_in_s) || exists(@.run_at))')
            or pg_column_size(p_outcomes) > 1048576
            or jsonb_path_exists(p_outcomes, 'strict $.**{67 to last}')) then
        return query
        select s.job_id, s.lease, 'ok', s.state
          from jobforge_private.settle_jobs(p_worker_id, p_outcomes, false) as s;
        get diagnostics v_settled = row_count;
        if v_settled = jsonb_array_length(p_outcomes) then
            return;
        end if;
    end if;
    return query
    select s.job_id, s.lease, 'ok', s.state
      from jobforge_private.settle_free_jobs(p_worker_id, p_outcomes) as s;
    get diagnostics v_more = row_count;
    v_settled := v_settled + v_more;
    if v_settled = jsonb_array_length(p_outcomes) then
        return;
    end if;

    -- A later statement: it sees what was committed since, and what was just settled.
    return query
    select o.job_id, o.lease,
           case when a.lease is not null then 'ok'
                when r.lease is not null then 'busy' else 'lost' end, null::text
      from jobforge_private.read_outcomes(p_worker_id, p_outcomes) as o
      left join jobforge.jobs as r
        on r.tenant_id = o.tenant_id and r.id = o.job_id and r.state || '' = 'running'
       and r.worker_id = o.worker_id and r.lease = o.lease
       and (v_tenant is null or r.tenant_id = v_tenant)
      left join lateral (
           select h.lease, h.txid = pg_current_xact_id() and h.ended_at >= v_start as is_settled
             from jobforge.all_attempts as h
            where h.tenant_id = o.tenant_id and h.job_id = o.job_id and h.lease = o.lease
              and h.worker_id = o.worker_id and h.outcome = o.outcome
              and h.ended_at >= coalesce(o.started_at, '-infinity')
              and (v_tenant is null or h.tenant_id = v_tenant)
            limit 1) as a on true
     where a.is_settled is not true;
exception
    when data_exception then
        perform jobforge_private.refuse('JF002', 'Invalid outcome: ' || sqlerrm,
            '{"field": "outcomes"}');
end $$;
