-- Workers call this with everything that ended since the last call: one row per outcome, `ok` or
-- `lost`, and the state the job went to. One bad row does not fail the others. A repeated
-- completion (the reply to COMMIT may get lost) answers `ok` again, whatever its outcome was;
-- another outcome for a lease that has ended is `lost`. Waits for a transaction that is
-- completing or cancelling the same job. Fields: docs/sql.md. Raises JF002 when p_outcomes cannot
-- be read.
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
    v_start timestamptz := jobforge.now();
    v_tenant uuid := jobforge.tenant();
    v_settled integer;
begin
    if p_worker_id is null or jsonb_typeof(p_outcomes) is distinct from 'array'
       or jsonb_array_length(p_outcomes) > 5000 then
        perform jobforge.refuse('JF002', 'outcomes must be an array of at most 5000, of one worker',
            '{"field": "outcomes"}');
    end if;
    return query
    select s.job_id, s.lease, 'ok', s.state from jobforge.settle_jobs(p_worker_id, p_outcomes) as s;
    get diagnostics v_settled = row_count;
    if v_settled = jsonb_array_length(p_outcomes) then
        return;
    end if;

    -- A later statement, so it also sees a completion that committed while we waited.
    return query
    select o.job_id, o.lease, case when a.lease is null then 'lost' else 'ok' end, null::text
      from jobforge.read_outcomes(p_worker_id, p_outcomes) as o
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
        perform jobforge.refuse('JF002', 'an outcome cannot be read: ' || sqlerrm,
            '{"field": "outcomes"}');
end $$;
