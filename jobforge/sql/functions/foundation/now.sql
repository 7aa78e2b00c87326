-- The one clock of the engine: every function reads it, once, after its locks. Tests replace it
-- to travel in time. Not now(): a transaction that waited would grant leases already past.
create or replace function jobforge_private.now() returns timestamptz
language sql volatile
as $$ select pg_catalog.clock_timestamp() $$;
