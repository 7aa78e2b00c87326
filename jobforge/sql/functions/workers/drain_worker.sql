-- Operators call this to drain a worker remotely: it claims no more jobs, finishes its running
-- ones, then ends. Raises JF004.
create or replace function jobforge.drain_worker(p_worker_id uuid) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$ select jobforge_private.command_worker(p_worker_id, 'drain') $$;
