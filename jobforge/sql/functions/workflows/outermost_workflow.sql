-- Returns the outermost workflow around this one, or this one itself; null if it does not exist.
-- Called by retry_workflow and nodes_to_retry.
create or replace function jobforge_private.outermost_workflow(p_tenant_id uuid, p_id uuid)
returns uuid
language sql stable
as $$
    with recursive outward as (
        select w.id, w.parent_id from jobforge.workflows as w
         where w.tenant_id = p_tenant_id and w.id = p_id
        union all
        select w.id, w.parent_id
          from outward as o
          join jobforge.workflows as w on w.tenant_id = p_tenant_id and w.id = o.parent_id
    )
    select o.id from outward as o where o.parent_id is null
$$;
