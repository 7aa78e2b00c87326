-- Returns a trigger of a tenant and locks it. Raises JF004 if it does not exist or was deleted.
create or replace function jobforge_private.lock_trigger(p_tenant_id uuid, p_id uuid)
returns jobforge.triggers
language plpgsql
as $$
declare
    t jobforge.triggers;
begin
    select r.* into t
      from jobforge.triggers as r
     where r.tenant_id = p_tenant_id and r.id = p_id and r.deleted_at is null
       for update;
    if not found then
        perform jobforge_private.refuse('JF004',
            'Trigger not found', jsonb_build_object('id', p_id));
    end if;
    return t;
end $$;
