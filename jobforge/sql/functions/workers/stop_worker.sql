-- Operators stop a worker from afar. It hands its jobs back, then ends. Raises JF004.
create or replace function jobforge.stop_worker(p_worker_id uuid) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$ select jobforge_private.command_worker(p_worker_id, 'stop') $$;
