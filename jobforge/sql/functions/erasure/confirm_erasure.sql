-- Workers and servers call this after they have deleted all artifacts of a tenant: the erasure
-- continues. p_found says that the caller found files; the erasure then asks for another check of
-- the store before it completes. Returns false if the erasure no longer waits for that. Locks the
-- operation. Raises JF006 if app.tenant_id is another tenant.
create or replace function jobforge.confirm_erasure(
    p_operation_id uuid,
    p_tenant_id uuid,
    p_found boolean default false
) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge.tenant();
begin
    if v_tenant <> p_tenant_id then
        perform jobforge_private.refuse('JF006',
            'The given tenant differs from the transaction''s tenant');
    end if;
    update jobforge.operations as o
       set progress = case when p_found then o.progress - 'listed'
                           when o.progress ? 'listed' then o.progress || '{"listed": true}'
                           else o.progress end || '{"phase": "proof"}',
           due_at = jobforge_private.now(), state = 'running', reason = null
     where o.tenant_id = p_tenant_id and o.id = p_operation_id and o.finished_at is null
       and o.progress ->> 'phase' = 'artifacts';
    return found;
end $$;
