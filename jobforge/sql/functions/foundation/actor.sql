-- Returns who acts, for job events and the audit log: app.actor if the caller set it, else the
-- login.
create or replace function jobforge_private.actor() returns text
language sql stable
as $$ select left(coalesce(nullif(current_setting('app.actor', true), ''), session_user), 200) $$;
