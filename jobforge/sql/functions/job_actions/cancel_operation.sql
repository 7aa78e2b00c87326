-- Applications call this to stop an operation: what it has done stays done. Returns `canceled`,
-- also if it was canceled before. Waits for a step in progress. Raises JF001, JF004, JF005 (it is
-- done or failed), JF006, JF014.
create or replace function jobforge.cancel_operation(p_id uuid, p_tenant_id uuid default null)
returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_operation jobforge.operations;
begin
    select * into v_operation from jobforge.operations as o
     where o.tenant_id = v_tenant and o.id = p_id
       for update;
    if not found then
        perform jobforge_private.refuse('JF004', 'Operation not found',
            jsonb_build_object('id', p_id));
    elsif v_operation.state in ('done', 'failed') then
        perform jobforge_private.refuse('JF005', format('The operation is %s', v_operation.state),
            jsonb_build_object('id', p_id, 'state', v_operation.state));
    elsif v_operation.state <> 'canceled' then
        update jobforge.operations as o
           set state = 'canceled', finished_at = jobforge_private.now()
         where o.tenant_id = v_tenant and o.id = p_id;
        perform jobforge_private.audit(v_tenant, 'operation.cancel', p_id::text,
            jsonb_build_object('kind', v_operation.kind, 'done', v_operation.done));
    end if;
    return 'canceled';
end $$;
