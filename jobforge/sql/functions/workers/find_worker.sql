-- Servers call this before they act for a worker: checks that it was registered by p_owner for this
-- tenant (app.tenant_id; without one, for all tenants). Raises JF004.
create or replace function jobforge.find_worker(p_worker_id uuid, p_owner text) returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from jobforge.workers as w
                    where w.id = p_worker_id and w.owner = p_owner
                      and w.tenant_id is not distinct from jobforge.tenant()) then
        perform jobforge_private.refuse('JF004', 'Worker not found',
            jsonb_build_object('worker_id', p_worker_id));
    end if;
end $$;
