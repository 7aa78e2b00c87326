-- Maintenance calls this: drops history partitions older than p_history_days, and deletes,
-- p_limit rows of each kind at most, dead jobs older than p_dead_days, idempotency keys past
-- their time, workers gone for a day, operations, workflows and firings from before the history
-- begins, API keys that ended before it, steps and edges of jobs that are gone, notes about
-- failures that are, buckets of limit keys that are full, and what is remembered of requests for a
-- day. Answers what went; where it is p_limit, there may be more, and partitions are null while
-- somebody's transaction reads the history. Runs as the owner of the tables; a caller while another
-- is at it answers {}. Raises JF002.
create or replace function jobforge.apply_retention(
    p_history_days integer default 14,
    p_dead_days integer default 90,
    p_limit integer default 10000
) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := jobforge.now();
    v_begin timestamptz := v_now - make_interval(days => p_history_days);
    v_dead bigint;
    v_keys bigint;
    v_freed bigint;
    v_workers bigint;
    v_operations bigint;
    v_requests bigint;
    v_steps bigint;
    v_workflows bigint;
    v_gone jsonb;
begin
    perform jobforge.check_limit(p_limit, 1000000);
    if p_history_days < 1 or p_dead_days < 1 then
        perform jobforge.refuse('JF002', 'history is kept for at least one day',
            '{"field": "history_days"}');
    elsif not pg_try_advisory_xact_lock(hashtextextended('jobforge:partitions', 0)) then
        return '{}';
    end if;
    delete from jobforge.jobs as j
     where j.state || '' = 'dead' and j.ctid = any (array(
           select d.ctid from jobforge.jobs as d
            where d.finished_at is not null
              and d.finished_at < v_now - make_interval(days => p_dead_days)
            limit p_limit for update skip locked));
    get diagnostics v_dead = row_count;
    delete from jobforge.idempotency_keys as k
     where k.ctid = any (array(
           select e.ctid from jobforge.idempotency_keys as e
            where e.expires_at < v_now limit p_limit for update skip locked));
    get diagnostics v_keys = row_count;
    -- Keys held while their job is active end with it.
    delete from jobforge.idempotency_keys as k
     where k.ctid = any (array(
           select e.ctid from jobforge.idempotency_keys as e
            where e.while_active
              and not exists (select from jobforge.jobs as j
                               where j.tenant_id = e.tenant_id and j.id = e.job_id
                                 and j.state <> 'dead')
            limit p_limit for update skip locked));
    get diagnostics v_freed = row_count;
    delete from jobforge.workers as w where w.heartbeat_at < v_now - interval '1 day';
    get diagnostics v_workers = row_count;
    delete from jobforge.operations as o
     where o.ctid = any (array(
           select e.ctid from jobforge.operations as e
            where e.finished_at < v_begin
            limit p_limit for update skip locked));
    get diagnostics v_operations = row_count;
    delete from jobforge.idempotent_requests as r
     where r.ctid = any (array(
           select e.ctid from jobforge.idempotent_requests as e
            where e.created_at < v_now - interval '24 hours'
            limit p_limit for update skip locked));
    get diagnostics v_requests = row_count;
    v_steps := jobforge.sweep_steps(v_begin, p_limit);
    v_workflows := jobforge.sweep_workflows(
        v_begin, v_now - make_interval(days => p_dead_days), p_limit);
    delete from jobforge.request_rates as b where b.refilled_at < v_now - interval '1 day';
    v_gone := jsonb_build_object(
        'dead_jobs', v_dead, 'idempotency_keys', v_keys + v_freed, 'workers', v_workers,
        'operations', v_operations, 'idempotent_requests', v_requests, 'steps', v_steps,
        'workflows', v_workflows,
        'dependencies', jobforge.sweep_dependencies(v_begin, p_limit),
        'buckets', jobforge.sweep_buckets(v_now, p_limit),
        'firings', jobforge.forget_firings(v_begin, p_limit),
        'api_keys', jobforge.forget_keys(v_begin, p_limit),
        'failure_notes', jobforge.forget_notes(
            v_now - make_interval(days => p_dead_days), p_limit));
    return v_gone
        || jsonb_build_object('partitions', jobforge.drop_history(v_now, p_history_days));
end $$;
