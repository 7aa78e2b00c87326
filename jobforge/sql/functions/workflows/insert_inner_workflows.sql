-- Inserts the workflows that are nodes of another workflow, each after the nodes that it waits for.
-- Nodes that come after an inner workflow wait for its last jobs. Returns p_known, the jobs that
-- represent each node, with those of these nodes added. Called by insert_nodes. Raises JF002, and
-- what insert_nodes raises.
create or replace function jobforge_private.insert_inner_workflows(
    p_outer jobforge.workflows,
    p_nodes jsonb,
    p_known jsonb,
    p_base jsonb
) returns jsonb
language plpgsql
as $$
declare
    v_known jsonb := p_known;
    v_id uuid;
    v_after uuid[];
    v_node record;
begin
    if p_outer.depth >= 8 then
        perform jobforge_private.refuse('JF002', 'Workflows can be nested at most 8 levels deep',
            '{"field": "workflow"}');
    end if;
    loop
        select n.node, n.place into v_node
          from jsonb_array_elements(p_nodes) with ordinality as n(node, place)
         where n.node ? 'workflow' and not v_known ? (n.node ->> 'name')
           and not exists (
               select from jsonb_array_elements_text(n.node -> 'after') as a(name)
                where not v_known ? a.name)
         order by n.place
         limit 1;
        exit when not found;
        perform jobforge_private.check_workflow(v_node.node -> 'workflow');
        v_after := array(
            select k.id::uuid
              from jsonb_array_elements_text(v_node.node -> 'after') as a(name)
             cross join lateral jsonb_array_elements_text(v_known -> a.name) as k(id));
        if v_after = '{}' then
            v_after := array(select jsonb_array_elements_text(p_base -> 'after')::uuid);
        end if;
        v_id := jobforge_private.uuid7();
        insert into jobforge.workflows (
               tenant_id, id, parent_id, created_at, depth, kind, name, node, correlation_id,
               created_by, input, callbacks)
        select p_outer.tenant_id, v_id, p_outer.id, jobforge_private.now(), p_outer.depth + 1,
               'workflow', coalesce(d.document ->> 'name', v_node.node ->> 'name'),
               v_node.node ->> 'name',
               coalesce(d.document ->> 'correlation_id', p_outer.correlation_id),
               p_outer.created_by, coalesce(d.document -> 'input', p_outer.input),
               d.document - '{name,nodes,input,correlation_id}'::text[]
          from (select v_node.node -> 'workflow' as document) as d;
        insert into jobforge.workflow_jobs (tenant_id, workflow_id, inner_id, position, name)
        values (p_outer.tenant_id, p_outer.id, v_id,
                p_outer.size - jsonb_array_length(p_nodes) + v_node.place,
                v_node.node ->> 'name');
        v_known := v_known || jsonb_build_object(v_node.node ->> 'name', to_jsonb(
            jobforge_private.insert_nodes(
                p_outer.tenant_id, v_id, v_node.node #> '{workflow,nodes}', v_after,
                coalesce(v_node.node ->> 'on_parent_failure', p_base ->> 'on_parent_failure'))));
    end loop;
    return v_known;
end $$;
