-- Sends a NOTIFY when the transaction commits, unless the setting jobforge.notify is off: Postgres
-- refuses to prepare a transaction that has sent one (two-phase commit). Without it, listeners find
-- their work when they poll. All functions that notify call this. Takes no locks. Raises 22P02 for
-- a setting that is not a boolean.
create or replace function jobforge_private.notify_channel(p_channel text) returns void
language sql
as $$
    select case
               when coalesce(nullif(current_setting('jobforge.notify', true), ''), 'on')::boolean
               then pg_notify(p_channel, '') end
$$;
