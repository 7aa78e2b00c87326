-- Deletes rows of one kind that are past their retention, p_limit at most, and returns how many:
-- dead jobs and notes from before p_dead_before, rows of the history from before p_before. Waits
-- for locks for two seconds at most. Called by apply_retention, which catches errors.
create or replace function jobforge_private.sweep(
    p_kind text,
    p_now timestamptz,
    p_before timestamptz,
    p_dead_before timestamptz,
    p_limit integer
) returns bigint
language plpgsql
set lock_timeout = '2s'
as $$
declare
    v_deleted bigint;
    v_freed bigint;
begin
    case p_kind
        when 'dead_jobs' then
            delete from jobforge.jobs as j
             where j.state || '' = 'dead' and j.ctid = any (array(
                   select d.ctid from jobforge.jobs as d
                    where d.finished_at is not null and d.finished_at < p_dead_before
                    limit p_limit for update skip locked));
            get diagnostics v_deleted = row_count;
        when 'idempotency_keys' then
            delete from jobforge.idempotency_keys as k
             where k.ctid = any (array(
                   select e.ctid from jobforge.idempotency_keys as e
                    where e.expires_at < p_now limit p_limit for update skip locked));
            get diagnostics v_deleted = row_count;
            -- Keys with while_active expire when their job finishes.
            delete from jobforge.idempotency_keys as k
             where k.ctid = any (array(
                   select e.ctid from jobforge.idempotency_keys as e
                    where e.while_active
                      and not exists (select from jobforge.jobs as j
                                       where j.tenant_id = e.tenant_id and j.id = e.job_id
                                         and j.state <> 'dead')
                    limit p_limit for update skip locked));
            get diagnostics v_freed = row_count;
            v_deleted := v_deleted + v_freed;
        when 'workers' then
            delete from jobforge.workers as w where w.heartbeat_at < p_now - interval '1 day';
            get diagnostics v_deleted = row_count;
        when 'operations' then
            delete from jobforge.operations as o
             where o.ctid = any (array(
                   select e.ctid from jobforge.operations as e
                    where e.finished_at < p_before
                    limit p_limit for update skip locked));
            get diagnostics v_deleted = row_count;
        when 'idempotent_requests' then
            delete from jobforge.request_rates as b
             where b.refilled_at < p_now - interval '1 day';
            delete from jobforge.idempotent_requests as r
             where r.ctid = any (array(
                   select e.ctid from jobforge.idempotent_requests as e
                    where e.created_at < p_now - interval '24 hours'
                    limit p_limit for update skip locked));
            get diagnostics v_deleted = row_count;
        when 'steps' then
            v_deleted := jobforge_private.sweep_steps(p_before, p_limit);
        when 'workflows' then
            v_deleted := jobforge_private.sweep_workflows(p_before, p_dead_before, p_limit);
        when 'dependencies' then
            v_deleted := jobforge_private.sweep_dependencies(p_before, p_limit);
        when 'heartbeats' then
            v_deleted := jobforge_private.sweep_heartbeats(p_now, p_limit);
        when 'buckets' then
            v_deleted := jobforge_private.sweep_buckets(p_now, p_limit);
        when 'firings' then
            v_deleted := jobforge_private.sweep_firings(p_before, p_limit);
        when 'api_keys' then
            delete from jobforge.ended_sessions as s where s.expires_at < p_now;
            v_deleted := jobforge_private.sweep_api_keys(p_before, p_limit);
        when 'failure_notes' then
            v_deleted := jobforge_private.sweep_failure_notes(p_dead_before, p_limit);
    end case;
    return v_deleted;
end $$;
