-- Returns jobs with their outcomes, in the order of p_ids, for the jobs that wait for them. The
-- name of a job of another workflow than p_workflow_id starts with that workflow's name. Raises
-- JF007 beyond 32 MiB of text, the limit of a message to a job's process, and reads no further.
-- Called by load_parents.
create or replace function jobforge_private.show_parents(
    p_tenant_id uuid,
    p_ids uuid[],
    p_workflow_id uuid
) returns jsonb
language plpgsql stable
as $$
declare
    v_job record;
    v_shown jsonb;
    v_parents jsonb[] := '{}';
    v_bytes bigint := 0;
begin
    for v_job in
        select a.*, case when w.id <> p_workflow_id then w.node || '/' else '' end || m.name as name
          from unnest(p_ids) with ordinality as p(id, place)
         cross join lateral (
            select j.id, j.state, j.definition, null::jsonb as result, j.error, j.artifact_ref
              from jobforge.jobs as j where j.tenant_id = p_tenant_id and j.id = p.id
            union all
            select f.id, f.state, f.definition, f.result, f.error, f.artifact_ref
              from jobforge.finished_jobs as f
             where f.tenant_id = p_tenant_id and f.id = p.id) as a
          left join jobforge.workflow_jobs as m on m.tenant_id = p_tenant_id and m.job_id = p.id
          left join jobforge.workflows as w on w.tenant_id = p_tenant_id and w.id = m.workflow_id
         order by p.place
    loop
        v_shown := jsonb_build_object(
            'job_id', v_job.id, 'state', v_job.state, 'definition', v_job.definition,
            'result', jobforge_private.readable(v_job.result),
            'error', jobforge_private.readable(v_job.error),
            'artifact_ref', v_job.artifact_ref, 'name', v_job.name);
        v_bytes := v_bytes + octet_length(v_shown::text);
        if v_bytes > 33554432 then
            perform jobforge_private.refuse('JF007',
                'The parents'' results have more than 32 MiB of JSON text',
                '{"field": "parents", "limit": 33554432}',
                'Store large data elsewhere and return references to it from the parents');
        end if;
        v_parents := array_append(v_parents, v_shown);
    end loop;
    return to_jsonb(v_parents);
end $$;
