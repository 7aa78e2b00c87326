-- Workers and operators call this: returns the artifact stores of processes that were seen
-- recently, within two hours for workers and servers and within a day for apps. store_id is null
-- for a process without a store. Raises nothing.
create or replace function jobforge.list_artifact_stores()
returns table (
    store_id uuid, kind text, host text, pid integer, location text, seen_at timestamptz
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select s.store_id, s.kind, s.host, s.pid, nullif(s.location, ''), s.seen_at
      from jobforge.artifact_stores as s
     where s.seen_at > jobforge_private.now()
                       - case s.kind when 'app' then interval '1 day' else interval '2 hours' end
     order by s.kind, s.host, s.seen_at desc
     limit 1000
$$;
