-- Returns the time. The only clock of the engine: functions read it once, after their locks. Tests
-- replace this function to change the time. Not pg_catalog.now(): a transaction that waited would
-- grant leases that are already over.
create or replace function jobforge_private.now() returns timestamptz
language sql volatile
as $$ select pg_catalog.clock_timestamp() $$;
