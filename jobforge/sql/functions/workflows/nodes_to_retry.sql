-- Returns the nodes that retry_workflow runs again, without blocked ones, which already wait. Nodes
-- that come after one of these may be outside the workflow, in the one around it. Raises JF004 if
-- p_from is not a node, and JF005 for a node that comes after one that did not succeed.
create or replace function jobforge_private.nodes_to_retry(p_tenant_id uuid, p_id uuid, p_from text)
returns jobforge.workflow_node[]
language plpgsql
as $$
declare
    v_all jobforge.workflow_node[];
    v_starts uuid[];
    v_nodes jobforge.workflow_node[];
    v_parent uuid;
begin
    v_all := array(select n from jobforge_private.list_nodes(
                       p_tenant_id, jobforge_private.outermost_workflow(p_tenant_id, p_id)) as n);
    v_starts := array(
        select n.job_id from jobforge_private.list_nodes(p_tenant_id, p_id) as n
         where case when p_from is null then n.state in ('dead', 'canceled')
                    else n.path = p_from or starts_with(n.path, p_from || '/') end);
    if p_from is not null and v_starts = '{}' then
        perform jobforge_private.refuse('JF004', format('The workflow has no node ''%s''', p_from),
            jsonb_build_object('node', p_from));
    end if;
    with recursive later as (
        select s.id from unnest(v_starts) as s(id)
        union
        select d.child_id
          from later as l
          join jobforge.dependencies as d on d.tenant_id = p_tenant_id and d.parent_id = l.id
    )
    select coalesce(array_agg(n), '{}') into v_nodes
      from unnest(v_all) as n
      join later as l on l.id = n.job_id
     where n.state <> 'blocked' and (p_from is not null or n.state in ('dead', 'canceled'));
    -- A retried node must not come after a parent that did not succeed and is not retried.
    select d.parent_id into v_parent
      from unnest(v_nodes) as n
      join jobforge.dependencies as d on d.tenant_id = p_tenant_id and d.child_id = n.job_id
      join jobforge.all_jobs as a on a.tenant_id = p_tenant_id and a.id = d.parent_id
     where d.on_parent_failure = 'cancel' and a.state in ('dead', 'canceled')
       and d.parent_id not in (select o.job_id from unnest(v_nodes) as o)
     limit 1;
    if v_parent is not null then
        perform jobforge_private.refuse('JF005',
            'A parent is dead or canceled; retry the parent first',
            jsonb_build_object('job_id', v_parent));
    end if;
    return v_nodes;
end $$;
