-- Returns one batch, with the current number of its jobs by state. Raises JF001, JF004, JF006,
-- JF014.
create or replace function jobforge.get_batch(p_id uuid, p_tenant_id uuid default null)
returns table (batch jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_batch jobforge.workflows;
begin
    select * into v_batch from jobforge.workflows as w
     where w.tenant_id = v_tenant and w.id = p_id and w.kind = 'batch';
    if not found then
        perform jobforge_private.refuse('JF004', 'Batch not found', jsonb_build_object('id', p_id));
    end if;
    batch := jobforge_private.show_workflow(v_batch)
        || jsonb_build_object('counts', jobforge_private.count_nodes(v_batch));
    return next;
end $$;
