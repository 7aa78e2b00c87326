-- Refuses nodes that wait for an unknown node or, directly or indirectly, for themselves (JF002
-- with the path). If each node comes after those that it waits for, as builders write them, there
-- is no cycle to search for. Called by check_workflow.
create or replace function jobforge_private.check_node_order(p_nodes jsonb, p_known text[])
returns void
language plpgsql
as $$
declare
    v_names text[];
    v_children text[];
    v_parents text[];
    v_left text[];
    v_missing record;
    v_path text[];
begin
    v_names := array(select n.node ->> 'name' from jsonb_array_elements(p_nodes) as n(node));
    with named as materialized (
        select u.name, u.place from unnest(v_names) with ordinality as u(name, place)
    ), edges as materialized (
        select n.node ->> 'name' as child, a.name as parent, n.place
          from jsonb_array_elements(p_nodes) with ordinality as n(node, place)
         cross join lateral jsonb_array_elements_text(n.node -> 'after') as a(name)
         where a.name <> all (p_known)
    )
    select array_agg(e.child), array_agg(e.parent),
           (array_agg(e.child || ' ' || e.parent) filter (where p.place is null))[1] as missing,
           coalesce(bool_and(p.place < e.place), true) as is_ordered
      into v_missing
      from edges as e
      left join named as p on p.name = e.parent;
    if v_missing.missing is not null then
        perform jobforge_private.refuse('JF002',
            format('Node ''%s'' comes after ''%s'', which is not a node of the workflow',
                   split_part(v_missing.missing, ' ', 1), split_part(v_missing.missing, ' ', 2)),
            jsonb_build_object('field', 'after',
                               'node', split_part(v_missing.missing, ' ', 1)));
    elsif v_missing.is_ordered then
        return;
    end if;

    select array_agg(n.node ->> 'name'), array_agg(a.name) into v_children, v_parents
      from jsonb_array_elements(p_nodes) as n(node)
     cross join lateral jsonb_array_elements_text(n.node -> 'after') as a(name)
     where a.name <> all (p_known);
    -- Repeatedly remove nodes that wait for no remaining node; a cycle remains.
    v_left := v_names;
    loop
        v_path := array(
            select l.name from unnest(v_left) as l(name)
            intersect
            select e.child from unnest(v_children, v_parents) as e(child, parent)
             where e.parent = any (v_left));
        exit when v_path = '{}' or cardinality(v_path) = cardinality(v_left);
        v_left := v_path;
    end loop;
    if v_path = '{}' then
        return;
    end if;
    v_path := array(select l.name from unnest(v_left) as l(name) order by 1 limit 1);
    while v_path[1] <> all (v_path[2:]) loop
        v_path := (select e.parent from unnest(v_children, v_parents) as e(child, parent)
                    where e.child = v_path[1] and e.parent = any (v_left)
                    order by e.parent limit 1) || v_path;
    end loop;
    v_path := v_path[1:array_position(v_path, v_path[1], 2)];
    perform jobforge_private.refuse('JF002',
        format('Nodes wait for each other: %s', array_to_string(v_path, ' -> ')),
        jsonb_build_object('field', 'after', 'cycle', to_jsonb(v_path)));
end $$;
