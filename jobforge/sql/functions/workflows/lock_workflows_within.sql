-- Locks a workflow and its inner workflows, inner ones first, so that no jobs can be added to them.
-- Called by cancel_nodes.
create or replace function jobforge_private.lock_workflows_within(p_tenant_id uuid, p_id uuid)
returns void
language plpgsql
as $$
begin
    perform from jobforge.workflows as w
      where w.tenant_id = p_tenant_id and w.id in (
            with recursive inside as (
                select p_id as id
                union all
                select i.id
                  from inside as o
                  join jobforge.workflows as i
                    on i.tenant_id = p_tenant_id and i.parent_id = o.id
            )
            select i.id from inside as i)
      order by w.depth desc, w.id
        for update;
end $$;
