-- Schedulers call this before each maintenance task (statistics, partitions, retention,
-- blocked_jobs). Returns true for the one process that should run it now, because no process has
-- started it in the last p_every_s seconds. p_by is a label of the caller for display. Locks the
-- row of the task. Raises JF002.
create or replace function jobforge.start_maintenance(
    p_task text,
    p_every_s double precision,
    p_by text default null
) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := jobforge_private.now();
begin
    if p_task is null
       or p_task not in ('statistics', 'partitions', 'retention', 'blocked_jobs') then
        perform jobforge_private.refuse('JF002',
            'task must be statistics, partitions, retention or blocked_jobs',
            '{"field": "task"}');
    elsif p_every_s is null or not p_every_s between 0 and 31622400 then
        perform jobforge_private.refuse('JF002',
            'every_s must be a number of seconds, at most one year',
            '{"field": "every_s"}');
    end if;
    insert into jobforge.maintenance as m (task, started_at, since, started_by)
    values (p_task, v_now, v_now, left(coalesce(p_by, session_user), 255))
        on conflict (task) do update
       set started_at = excluded.started_at, started_by = excluded.started_by,
           since = case m.started_by when excluded.started_by then m.since else excluded.since end
     where m.started_at <= v_now - make_interval(secs => p_every_s);
    return found;
end $$;
