-- Refuses an invalid workflow document (JF002 with field and node): its own fields and those of its
-- nodes, whose job fields are checked as enqueue_jobs does (also JF007). p_known are existing nodes
-- that `after` may name. Called for the whole workflow and for each inner workflow.
create or replace function jobforge_private.check_workflow(
    p_workflow jsonb,
    p_known text[] default '{}'
) returns void
language plpgsql
as $$
declare
    v_fault text;
    v_field text := 'nodes';
    v_node text;
begin
    perform jobforge_private.check_bounded('workflow', p_workflow, null);
    if jsonb_typeof(p_workflow) is distinct from 'object' then
        perform jobforge_private.refuse('JF002', 'workflow must be a JSON object',
            '{"field": "workflow"}');
    end if;
    select o.key, 'is not a valid workflow field' into v_field, v_fault
      from jsonb_object_keys(p_workflow) as o(key)
     where o.key not in ('name', 'nodes', 'input', 'correlation_id', 'on_success', 'on_failure',
                         'on_complete')
     limit 1;
    if v_fault is null then
        v_field := 'nodes';
        v_fault := case
            when jsonb_typeof(p_workflow -> 'nodes') is distinct from 'array'
              or jsonb_array_length(p_workflow -> 'nodes') not between 1 and 50000
            then 'must be a list of 1 to 50000 nodes'
            when jsonb_path_exists(p_workflow, '$.nodes[*] ? (@.type() != "object")')
            then 'must be objects' end;
    end if;
    if v_fault is null then
        select n.node ->> 'name', n.fault into v_node, v_fault
          from (select e.node, case
                    when jsonb_typeof(e.node -> 'name') is distinct from 'string'
                      or e.node ->> 'name' !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$'
                    then 'must have names of letters, digits and _ . : -'
                    when jsonb_typeof(e.node -> 'after') <> 'array'
                      or jsonb_path_exists(e.node, '$.after[*] ? (@.type() != "string")')
                    then 'must have a list of node names in after'
                    when e.node ? 'workflow' and jsonb_typeof(e.node -> 'workflow') <> 'object'
                      or e.node ? 'workflow'
                         and e.node - '{name,after,on_parent_failure,workflow}'::text[] <> '{}'
                    then 'that are workflows can have no other fields than name and after'
                    when e.node ?| '{key,key_mode,key_window_s,on_conflict}'
                    then 'cannot have idempotency keys'
                    when count(*) over (partition by e.node -> 'name') > 1
                      or e.node ->> 'name' = any (p_known)
                    then 'must have unique names' end as fault
                  from jsonb_array_elements(p_workflow -> 'nodes') as e(node)) as n
         where n.fault is not null
         limit 1;
    end if;
    if v_fault is not null then
        perform jobforge_private.refuse('JF002', format('%s %s', v_field, v_fault),
            jsonb_strip_nulls(jsonb_build_object('field', v_field, 'node', v_node)));
    end if;
    perform jobforge_private.check_name('name', coalesce(p_workflow ->> 'name', 'workflow'), 200);
    perform jobforge_private.check_name('correlation_id', p_workflow ->> 'correlation_id', 255)
      where p_workflow ? 'correlation_id';
    perform jobforge_private.check_size('input', p_workflow -> 'input');
    perform jobforge_private.check_callbacks(p_workflow);
    perform jobforge_private.check_jobs((
        select coalesce(jsonb_agg(e.node - '{name,after}'::text[]), '[]')
          from jsonb_array_elements(p_workflow -> 'nodes') as e(node)
         where not e.node ? 'workflow'));
    perform jobforge_private.check_node_order(p_workflow -> 'nodes', p_known);
end $$;
