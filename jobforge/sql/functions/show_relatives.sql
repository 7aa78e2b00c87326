-- What get_job tells of the jobs around one: its parents and children, a hundred of each with their
-- states, and the workflow or batch that it is of.
create or replace function jobforge.show_relatives(p_tenant_id uuid, p_job_id uuid) returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'parents', (
            select coalesce(jsonb_agg(jsonb_build_object(
                       'job_id', r.id, 'definition', a.definition,
                       'state', coalesce(a.state, 'forgotten'),
                       'on_parent_failure', r.policy) order by r.id), '[]')
              from (select d.parent_id as id, d.on_parent_failure as policy
                      from jobforge.dependencies as d
                     where d.tenant_id = p_tenant_id and d.child_id = p_job_id
                     order by d.parent_id
                     limit 100) as r
              left join lateral (
                   select j.definition, j.state from jobforge.all_jobs as j
                    where j.tenant_id = p_tenant_id and j.id = r.id limit 1) as a on true),
        'children', (
            select coalesce(jsonb_agg(jsonb_build_object(
                       'job_id', r.id, 'definition', a.definition,
                       'state', coalesce(a.state, 'forgotten'),
                       'on_parent_failure', r.policy) order by r.id), '[]')
              from (select d.child_id as id, d.on_parent_failure as policy
                      from jobforge.dependencies as d
                     where d.tenant_id = p_tenant_id and d.parent_id = p_job_id
                     order by d.child_id
                     limit 100) as r
              left join lateral (
                   select j.definition, j.state from jobforge.all_jobs as j
                    where j.tenant_id = p_tenant_id and j.id = r.id limit 1) as a on true),
        'workflow', (
            select jsonb_build_object('id', w.id, 'kind', w.kind, 'name', w.name, 'node', m.name)
              from jobforge.workflow_jobs as m
              join jobforge.workflows as w on w.tenant_id = p_tenant_id and w.id = m.workflow_id
             where m.tenant_id = p_tenant_id and m.job_id = p_job_id))
$$;
