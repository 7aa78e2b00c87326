-- The server calls this when a key was used, to store the time, at most once per minute. Skips a
-- key that another transaction has locked. Raises nothing.
create or replace function jobforge.touch_api_key(p_id uuid) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := jobforge_private.now();
begin
    with used as materialized (
        select k.id from jobforge.api_keys as k
         where k.id = p_id
           and (k.last_used_at is null or k.last_used_at < v_now - interval '1 minute')
           for update skip locked
    )
    update jobforge.api_keys as k set last_used_at = v_now from used as u where k.id = u.id;
end $$;
