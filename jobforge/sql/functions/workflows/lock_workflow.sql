-- Returns a tenant's workflow or batch and locks its row. Raises JF004 if the tenant has none of
-- that kind.
create or replace function jobforge_private.lock_workflow(p_tenant_id uuid, p_id uuid, p_kind text)
returns jobforge.workflows
language plpgsql
as $$
declare
    v_workflow jobforge.workflows;
begin
    select * into v_workflow from jobforge.workflows as w
     where w.tenant_id = p_tenant_id and w.id = p_id and w.kind = p_kind
       for update;
    if not found then
        perform jobforge_private.refuse('JF004', format('%s not found', initcap(p_kind)),
            jsonb_build_object('id', p_id));
    end if;
    return v_workflow;
end $$;
