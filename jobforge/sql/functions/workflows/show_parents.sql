-- Returns jobs and their results, in the order of p_ids, for load_parents. The name of a job in
-- another workflow than p_workflow_id is preceded by that workflow's node name.
create or replace function jobforge_private.show_parents(
    p_tenant_id uuid,
    p_ids uuid[],
    p_workflow_id uuid
) returns jsonb
language sql stable
as $$
    select coalesce(jsonb_agg(jsonb_build_object(
               'job_id', a.id, 'state', a.state, 'definition', a.definition, 'result', a.result,
               'error', a.error, 'artifact_ref', a.artifact_ref,
               'name', case when w.id <> p_workflow_id then w.node || '/' else '' end || m.name)
               order by p.place), '[]')
      from unnest(p_ids) with ordinality as p(id, place)
     cross join lateral (
        select j.id, j.state, j.definition, null::jsonb as result, j.error, j.artifact_ref
          from jobforge.jobs as j where j.tenant_id = p_tenant_id and j.id = p.id
        union all
        select f.id, f.state, f.definition, f.result, f.error, f.artifact_ref
          from jobforge.finished_jobs as f where f.tenant_id = p_tenant_id and f.id = p.id) as a
      left join jobforge.workflow_jobs as m on m.tenant_id = p_tenant_id and m.job_id = p.id
      left join jobforge.workflows as w on w.tenant_id = p_tenant_id and w.id = m.workflow_id
$$;
