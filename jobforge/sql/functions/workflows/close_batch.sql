-- Applications call this when an open batch has all its jobs: it finishes with the last of them, or
-- now if all have finished. Returns its state. Safe to repeat. Locks the batch. Raises JF001,
-- JF004, JF006, JF014, and JF012 outside READ COMMITTED.
create or replace function jobforge.close_batch(p_id uuid, p_tenant_id uuid default null)
returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    perform jobforge_private.require_read_committed('close_batch');
    perform jobforge_private.lock_workflow(v_tenant, p_id, 'batch');
    update jobforge.workflows as w
       set is_open = false
     where w.tenant_id = v_tenant and w.id = p_id and w.is_open;
    perform jobforge_private.advance_workflow(v_tenant, p_id);
    return (select w.state from jobforge.workflows as w
             where w.tenant_id = v_tenant and w.id = p_id);
end $$;
