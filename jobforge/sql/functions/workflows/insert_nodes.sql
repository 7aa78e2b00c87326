-- Adds nodes to a workflow and enqueues their jobs. Nodes without `after` come after p_after, jobs
-- outside the workflow, with failure policy p_policy. `after` names nodes of p_nodes or existing
-- nodes of the workflow. Returns the last jobs: those for which no other of the nodes waits.
-- insert_inner_workflows adds the nodes that are workflows. The caller has checked the nodes, and
-- the workflow's row is new or locked. Raises JF004, JF008 to JF010.
create or replace function jobforge_private.insert_nodes(
    p_tenant_id uuid,
    p_workflow_id uuid,
    p_nodes jsonb,
    p_after uuid[] default '{}',
    p_policy text default null
) returns uuid[]
language plpgsql
as $$
declare
    v_workflow jobforge.workflows;
    v_first_id uuid := jobforge_private.uuid7();
    v_base jsonb := jsonb_strip_nulls(jsonb_build_object(
        'after', to_jsonb(nullif(p_after, '{}')), 'on_parent_failure', p_policy));
    v_every jsonb;
    v_jobs jsonb;
    v_known jsonb;
begin
    update jobforge.workflows as w
       set size = w.size + jsonb_array_length(p_nodes)
     where w.tenant_id = p_tenant_id and w.id = p_workflow_id
    returning w.* into v_workflow;
    v_every := jsonb_strip_nulls(jsonb_build_object(
        'flags', 2, 'source', 'workflow', 'source_ref', p_workflow_id,
        'correlation_id', v_workflow.correlation_id, 'created_by', v_workflow.created_by));

    -- Insert the jobs first, so that inner workflows can wait for them. Waiting jobs are blocked;
    -- their parents are linked when all jobs exist.
    v_jobs := jobforge_private.node_jobs(p_nodes, v_every, v_base);
    perform jobforge_private.insert_jobs(p_tenant_id, v_jobs, v_first_id);
    insert into jobforge.workflow_jobs (tenant_id, workflow_id, job_id, position, name)
    select p_tenant_id, p_workflow_id,
           jobforge_private.nth_id(v_first_id, row_number() over (order by n.place)),
           v_workflow.size - jsonb_array_length(p_nodes) + n.place, n.node ->> 'name'
      from jsonb_array_elements(p_nodes) with ordinality as n(node, place)
     where not n.node ? 'workflow';
    v_known := (
        select coalesce(jsonb_object_agg(m.name, jsonb_build_array(m.job_id)), '{}')
          from jobforge.workflow_jobs as m
         where m.tenant_id = p_tenant_id and m.workflow_id = p_workflow_id
           and m.job_id is not null and m.name is not null);
    if jsonb_path_exists(p_nodes, '$[*].workflow') then
        v_known := jobforge_private.insert_inner_workflows(v_workflow, p_nodes, v_known, v_base);
    end if;
    if jsonb_path_exists(v_jobs, '$[*].after') then
        perform jobforge_private.link_parents(
            p_tenant_id, jobforge_private.node_jobs(p_nodes, v_every, v_base, v_known), v_first_id);
    end if;
    return array(
        select k.id::uuid
          from jsonb_array_elements(p_nodes) as n(node)
         cross join lateral jsonb_array_elements_text(v_known -> (n.node ->> 'name')) as k(id)
         where n.node -> 'name' not in (
               select a.name
                 from jsonb_array_elements(p_nodes) as o(node)
                cross join lateral jsonb_array_elements(o.node -> 'after') as a(name)));
end $$;
