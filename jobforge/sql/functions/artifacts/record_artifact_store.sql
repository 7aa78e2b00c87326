-- Apps, servers and workers call this to report the ID of their artifact store (null: no store), so
-- that list_artifact_stores shows processes that do not share one. Deletes rows older than a day.
-- Keeps at most 1,000 rows and ignores further ones. Locks the row of this kind, host and store.
-- Raises JF002.
create or replace function jobforge.record_artifact_store(
    p_store_id uuid,
    p_kind text,
    p_host text,
    p_pid integer default null,
    p_location text default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := jobforge_private.now();
begin
    if p_kind is null or p_kind not in ('app', 'server', 'worker') then
        perform jobforge_private.refuse('JF002', 'kind must be app, server or worker',
            '{"field": "kind"}');
    end if;
    if p_host is null then
        perform jobforge_private.refuse('JF002', 'host is required', '{"field": "host"}');
    end if;
    delete from jobforge.artifact_stores as s
     where s.ctid in (select old.ctid from jobforge.artifact_stores as old
                       where old.seen_at < v_now - interval '1 day'
                         for update skip locked);
    if (select count(*) from jobforge.artifact_stores) >= 1000 then
        return;
    end if;
    insert into jobforge.artifact_stores as s (store_id, kind, host, location, pid, seen_at)
    values (p_store_id, p_kind, left(p_host, 255), left(coalesce(p_location, ''), 500), p_pid,
            v_now)
    on conflict (kind, host, store_id, location) do update
       set pid = excluded.pid, seen_at = excluded.seen_at;
end $$;
