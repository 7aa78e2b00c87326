-- Returns the number of a workflow's nodes by state. Searches finished jobs as list_nodes does.
create or replace function jobforge_private.count_nodes(p_workflow jobforge.workflows) returns jsonb
language sql stable
as $$
    select coalesce(jsonb_object_agg(s.state, s.nodes), '{}')
      from (select n.state, count(*) as nodes
              from (select coalesce(
                               (select i.state from jobforge.workflows as i
                                 where i.tenant_id = m.tenant_id and i.id = m.inner_id),
                               (select j.state from jobforge.jobs as j
                                 where j.tenant_id = m.tenant_id and j.id = m.job_id),
                               (select f.state from jobforge.finished_jobs as f
                                 where f.tenant_id = m.tenant_id and f.id = m.job_id
                                   and f.finished_at
                                       >= p_workflow.created_at - interval '1 day'),
                               'forgotten') as state
                      from jobforge.workflow_jobs as m
                     where m.tenant_id = p_workflow.tenant_id
                       and m.workflow_id = p_workflow.id) as n
             group by n.state) as s
$$;
