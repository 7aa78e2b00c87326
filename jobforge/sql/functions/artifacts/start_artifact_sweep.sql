-- Workers and servers call this before they search for unused artifacts. Returns true for the one
-- process that should do so now, because no process has started a sweep in the last p_every_s
-- seconds. Locks the row with the last start. Raises JF002.
create or replace function jobforge.start_artifact_sweep(p_every_s double precision default 3600)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := jobforge_private.now();
begin
    if p_every_s is null or not p_every_s between 0 and 31622400 then
        perform jobforge_private.refuse('JF002',
            'every_s must be a number of seconds, at most one year',
            '{"field": "every_s"}');
    end if;
    insert into jobforge.artifact_sweeps as s (started_at) values (v_now)
        on conflict (is_only) do update set started_at = excluded.started_at
     where s.started_at <= v_now - make_interval(secs => p_every_s);
    return found;
end $$;
