-- The server calls this when a user signs out of the dashboard: the session is refused until
-- p_expires_at, when it would have expired. Safe to repeat. Raises JF002.
create or replace function jobforge.end_session(p_id bytea, p_expires_at timestamptz)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_id is null or octet_length(p_id) <> 16 then
        perform jobforge_private.refuse('JF002', 'id must be 16 bytes long', '{"field": "id"}');
    elsif p_expires_at is null
          or p_expires_at > jobforge_private.now() + interval '366 days' then
        perform jobforge_private.refuse('JF002', 'expires_at must be within one year',
            '{"field": "expires_at"}');
    end if;
    insert into jobforge.ended_sessions (id, expires_at) values (p_id, p_expires_at)
    on conflict on constraint ended_sessions_pkey do nothing;
end $$;
