-- Maintenance calls this once for each kind, 'partitions' first. That kind drops history partitions
-- older than p_history_days and months of the audit log older than p_audit_days. Any other kind
-- deletes at most p_limit rows that are past their retention (sweep): dead jobs older than
-- p_dead_days, expired idempotency keys, heartbeats of ended leases, workers gone for a day,
-- operations, workflows, firings and API keys that ended before the history begins, steps and edges
-- of jobs that no longer exist, notes on failures without jobs, full token buckets of limit keys,
-- and remembered requests after a day. Without p_kind, all kinds in one transaction. Returns the
-- number of deleted rows by kind; if it is p_limit, there may be more. Partitions are null while
-- another transaction reads the history. Each kind runs in a subtransaction; one that fails or
-- takes too long is reported in `failed`. Runs as the owner of the tables; while another call runs,
-- it returns {}. Raises JF002, and JF012 outside READ COMMITTED.
create or replace function jobforge.apply_retention(
    p_history_days integer default 14,
    p_dead_days integer default 90,
    p_limit integer default 10000,
    p_audit_days integer default 365,
    p_kind text default null
) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_sweeps constant text[] := array[
        'dead_jobs', 'idempotency_keys', 'workers', 'operations', 'idempotent_requests', 'steps',
        'workflows', 'dependencies', 'heartbeats', 'buckets', 'firings', 'api_keys',
        'failure_notes'];
    v_kind text;
    v_deleted jsonb := '{}';
    v_failed jsonb := '{}';
begin
    perform jobforge_private.require_read_committed('apply_retention');
    perform jobforge_private.check_limit(p_limit, 1000000);
    if p_history_days < 1 or p_dead_days < 1 or p_audit_days < 1 then
        perform jobforge_private.refuse('JF002', 'history_days must be at least 1',
            '{"field": "history_days"}');
    elsif p_kind <> 'partitions' and p_kind <> all (v_sweeps) then
        perform jobforge_private.refuse('JF002', 'kind must be partitions or one of '
            || array_to_string(v_sweeps, ', '), '{"field": "kind"}');
    elsif not jobforge_private.try_lock('partitions') then
        return '{}';
    end if;
    foreach v_kind in array v_sweeps loop
        continue when p_kind <> v_kind;
        begin
            v_deleted := v_deleted || jsonb_build_object(v_kind, jobforge_private.sweep(
                v_kind, v_now, v_now - make_interval(days => p_history_days),
                v_now - make_interval(days => p_dead_days), p_limit));
        exception
            when query_canceled or others then
                v_failed := v_failed || jsonb_build_object(v_kind, sqlerrm);
        end;
    end loop;
    if v_failed <> '{}' then
        v_deleted := v_deleted || jsonb_build_object('failed', v_failed);
    end if;
    -- Last, because the history is locked from here on until the transaction ends.
    if p_kind is null or p_kind = 'partitions' then
        v_deleted := v_deleted || jsonb_build_object(
            'partitions', jobforge_private.drop_history(v_now, p_history_days, p_audit_days));
    end if;
    return v_deleted;
end $$;
