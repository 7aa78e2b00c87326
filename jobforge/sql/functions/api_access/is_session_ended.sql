-- The server calls this to check whether a dashboard session was ended before its expiry. Raises
-- nothing.
create or replace function jobforge.is_session_ended(p_id bytea) returns boolean
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$ select exists (select from jobforge.ended_sessions as s where s.id = p_id) $$;
