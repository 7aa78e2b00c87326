-- Maintenance calls this: drops history partitions older than p_history_days, whole months of the
-- audit log older than p_audit_days, and deletes, p_limit rows of each kind at most, dead jobs
-- older than p_dead_days, idempotency keys past their time, heartbeats of leases that ended,
-- workers gone for a day, operations, workflows and firings from before the history begins, API
-- keys that ended before it, steps and edges of jobs that are gone, notes about failures that are,
-- buckets of limit keys that are full, and what is remembered of requests for a day. Answers what
-- went; where it is p_limit, there may be more, and partitions are null while somebody's
-- transaction reads the history. Each kind is swept in a subtransaction: one that fails or takes
-- too long is reported in `failed` and stops neither the others nor the dropping of the history.
-- Runs as the owner of the tables; a caller while another is at it answers {}. Raises JF002, and
-- JF012 outside READ COMMITTED.
create or replace function jobforge.apply_retention(
    p_history_days integer default 14,
    p_dead_days integer default 90,
    p_limit integer default 10000,
    p_audit_days integer default 365
) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := jobforge.now();
    v_kind text;
    v_gone jsonb := '{}';
    v_failed jsonb := '{}';
begin
    perform jobforge.require_read_committed('apply_retention');
    perform jobforge.check_limit(p_limit, 1000000);
    if p_history_days < 1 or p_dead_days < 1 or p_audit_days < 1 then
        perform jobforge.refuse('JF002', 'history is kept for at least one day',
            '{"field": "history_days"}');
    elsif not jobforge.try_lock('partitions') then
        return '{}';
    end if;
    foreach v_kind in array '{dead_jobs,idempotency_keys,workers,operations,idempotent_requests,
        steps,workflows,dependencies,heartbeats,buckets,firings,api_keys,failure_notes}'::text[]
    loop
        begin
            v_gone := v_gone || jsonb_build_object(v_kind, jobforge.sweep(
                v_kind, v_now, v_now - make_interval(days => p_history_days),
                v_now - make_interval(days => p_dead_days), p_limit));
        exception
            when query_canceled or others then
                v_failed := v_failed || jsonb_build_object(v_kind, sqlerrm);
        end;
    end loop;
    if v_failed <> '{}' then
        v_gone := v_gone || jsonb_build_object('failed', v_failed);
    end if;
    -- Last, because the history is locked from then on until the transaction ends.
    return v_gone
        || jsonb_build_object(
               'partitions', jobforge.drop_history(v_now, p_history_days, p_audit_days));
end $$;
