-- Returns one workflow: the number of its jobs by state, including those of inner workflows; its
-- first p_limit nodes, each with the path of its name and its job; the edges between them; and as
-- `result` the results of its last nodes, 100 at most. Raises JF001, JF002, JF004, JF006, JF014.
create or replace function jobforge.get_workflow(
    p_id uuid,
    p_limit integer default 1000,
    p_tenant_id uuid default null
) returns table (workflow jsonb, nodes jsonb, edges jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
    v_workflow jobforge.workflows;
    v_nodes jobforge.workflow_node[];
begin
    perform jobforge_private.check_limit(p_limit, 50000);
    select * into v_workflow from jobforge.workflows as w
     where w.tenant_id = v_tenant and w.id = p_id and w.kind = 'workflow';
    if not found then
        perform jobforge_private.refuse('JF004', 'Workflow not found',
            jsonb_build_object('id', p_id));
    end if;
    -- Without results, and with errors of 64 MiB together: an array has 1 GB at most.
    v_nodes := array(
        select row(n.workflow_id, n.job_id, n.place, n.path, n.state, n.definition, n.version,
                   n.queue, n.attempt, n.max_attempts, n.created_at, n.started_at, n.finished_at,
                   null, jobforge_private.readable(n.error, 67108864 / greatest(
                       p_limit, v_workflow.size)))::jobforge.workflow_node
          from jobforge_private.list_nodes(v_tenant, p_id) as n);
    nodes := (
        select coalesce(jsonb_agg(to_jsonb(n) - '{place,path,result}'::text[]
                                  || jsonb_build_object('node', n.path)
                                  order by n.place), '[]')
          from unnest(v_nodes[1:p_limit]) as n);
    edges := (
        select coalesce(jsonb_agg(jsonb_build_array(p.path, c.path)
                                  order by c.place, p.place), '[]')
          from unnest(v_nodes[1:p_limit]) as c
          join jobforge.dependencies as d on d.tenant_id = v_tenant and d.child_id = c.job_id
          join unnest(v_nodes[1:p_limit]) as p on p.job_id = d.parent_id);
    workflow := jobforge_private.show_workflow(v_workflow) || jsonb_build_object(
        'counts', (
            select coalesce(jsonb_object_agg(s.state, s.jobs), '{}')
              from (select n.state, count(*) as jobs from unnest(v_nodes) as n
                     group by n.state) as s),
        'result', (
            select coalesce(jsonb_object_agg(l.path, (
                       select jobforge_private.readable(f.result, (67108864 / l.n)::integer)
                         from jobforge.finished_jobs as f
                        where f.tenant_id = v_tenant and f.id = l.job_id
                          and f.finished_at = l.finished_at)), '{}')
              from (select n.path, n.job_id, n.finished_at, count(*) over () as n
                      from unnest(v_nodes) as n
                     where n.state = 'succeeded'
                       and not exists (select from jobforge.dependencies as d
                                         join unnest(v_nodes) as c on c.job_id = d.child_id
                                        where d.tenant_id = v_tenant and d.parent_id = n.job_id)
                     order by n.place
                     limit 100) as l),
        'has_all_nodes', cardinality(v_nodes) <= p_limit);
    return next;
end $$;
