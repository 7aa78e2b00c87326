-- Operators call this to stop a worker remotely: it releases its jobs, then ends. Raises JF004.
create or replace function jobforge.stop_worker(p_worker_id uuid) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$ select jobforge_private.command_worker(p_worker_id, 'stop') $$;
