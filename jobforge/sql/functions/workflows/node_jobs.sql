-- Returns the jobs of nodes, as insert_jobs takes them, in order. Nodes without `after` get the
-- fields of p_base; for the others, p_known has the jobs of the nodes that they name. Without
-- p_known, the names stay. Called by insert_nodes.
create or replace function jobforge_private.node_jobs(
    p_nodes jsonb,
    p_every jsonb,
    p_base jsonb,
    p_known jsonb default null
) returns jsonb
language sql stable
as $$
    select coalesce(jsonb_agg(
               p_every || case
                   when not n.node @? '$.after[0]'
                   then p_base || (n.node - '{name,after}'::text[])
                   when p_known is null then n.node - 'name'
                   else (n.node - 'name') || jsonb_build_object('after', (
                       select jsonb_agg(k.id)
                         from jsonb_array_elements_text(n.node -> 'after') as a(name)
                        cross join lateral jsonb_array_elements(p_known -> a.name) as k(id)))
               end order by n.place), '[]')
      from jsonb_array_elements(p_nodes) with ordinality as n(node, place)
     where not n.node ? 'workflow'
$$;
