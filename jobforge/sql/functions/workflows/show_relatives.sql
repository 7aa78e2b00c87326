-- Returns a job's parents and children, 100 of each with their states, and its workflow or batch.
-- Reads only those history partitions that may have one of them. Called by get_job.
create or replace function jobforge_private.show_relatives(p_tenant_id uuid, p_job_id uuid)
returns jsonb
language plpgsql stable
as $$
declare
    v_ids uuid[];
    v_policies text[];
    v_since timestamptz;
    v_until timestamptz := jobforge_private.now() + interval '1 day';
    v_shown jsonb;
    v_relatives jsonb := '{}';
    v_kind text;
begin
    foreach v_kind in array array['parents', 'children'] loop
        select array_agg(r.id order by r.id), array_agg(r.policy order by r.id),
               min(jobforge_private.earliest_history(r.id))
          into v_ids, v_policies, v_since
          from (select d.parent_id as id, d.on_parent_failure as policy
                  from jobforge.dependencies as d
                 where v_kind = 'parents' and d.tenant_id = p_tenant_id and d.child_id = p_job_id
                union all
                select d.child_id, d.on_parent_failure
                  from jobforge.dependencies as d
                 where v_kind = 'children' and d.tenant_id = p_tenant_id
                   and d.parent_id = p_job_id
                 order by id
                 limit 100) as r;
        v_shown := '[]';
        if v_ids is not null then
            select jsonb_agg(jsonb_build_object(
                       'job_id', r.id, 'definition', a.definition,
                       'state', coalesce(a.state, 'forgotten'),
                       'on_parent_failure', r.policy) order by r.id)
              into v_shown
              from unnest(v_ids, v_policies) as r(id, policy)
              left join lateral (
                   select j.definition, j.state from jobforge.all_jobs as j
                    where j.tenant_id = p_tenant_id and j.id = r.id
                      and (j.finished_at is null or j.finished_at between v_since and v_until)
                    limit 1) as a on true;
        end if;
        v_relatives := v_relatives || jsonb_build_object(v_kind, v_shown);
    end loop;
    return v_relatives || jsonb_build_object('workflow', (
        select jsonb_build_object('id', w.id, 'kind', w.kind, 'name', w.name, 'node', m.name)
          from jobforge.workflow_jobs as m
          join jobforge.workflows as w on w.tenant_id = p_tenant_id and w.id = m.workflow_id
         where m.tenant_id = p_tenant_id and m.job_id = p_job_id));
end $$;
