-- Workers call this after they have drained. The row is kept for a day. With app.tenant_id set,
-- only a worker of that tenant. Raises nothing.
create or replace function jobforge.unregister_worker(p_worker_id uuid) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
    update jobforge.workers as w
       set stopped_at = jobforge_private.now(), running = 0
     where w.id = p_worker_id and (jobforge.tenant() is null or w.tenant_id = jobforge.tenant())
$$;
