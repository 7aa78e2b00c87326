-- Returns a time as ISO 8601 in UTC, regardless of the session's time zone.
create or replace function jobforge_private.utc_text(p_at timestamptz) returns text
language sql stable
as $$ select to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;
