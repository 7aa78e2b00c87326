-- Returns the jobs of a workflow and of its inner workflows, in order. Searches finished jobs from
-- the day before the workflow was created on, because clocks may have been set back. Called by the
-- functions that show, cancel and retry workflows.
create or replace function jobforge_private.list_nodes(p_tenant_id uuid, p_id uuid)
returns setof jobforge.workflow_node
language sql stable
as $$
    with recursive inside as (
        select w.id, '{}'::integer[] as place, '' as prefix, w.created_at
          from jobforge.workflows as w
         where w.tenant_id = p_tenant_id and w.id = p_id
        union all
        select m.inner_id, i.place || m.position, i.prefix || m.name || '/', i.created_at
          from inside as i
          join jobforge.workflow_jobs as m on m.tenant_id = p_tenant_id and m.workflow_id = i.id
         where m.inner_id is not null
    )
    select row(i.id, m.job_id, i.place || m.position, i.prefix || m.name,
               case when j.cancel_requested_at is not null then 'canceling'
                    else coalesce(j.state, f.state, 'forgotten') end,
               coalesce(j.definition, f.definition), coalesce(j.version, f.version),
               coalesce(j.queue, f.queue), coalesce(j.attempt, f.attempt),
               coalesce(j.max_attempts, f.max_attempts), coalesce(j.created_at, f.created_at),
               coalesce(j.started_at, f.started_at), coalesce(j.finished_at, f.finished_at),
               f.result, coalesce(j.error, f.error))::jobforge.workflow_node
      from inside as i
      join jobforge.workflow_jobs as m on m.tenant_id = p_tenant_id and m.workflow_id = i.id
      left join jobforge.jobs as j on j.tenant_id = p_tenant_id and j.id = m.job_id
      left join lateral (
           select h.* from jobforge.finished_jobs as h
            where j.id is null and h.tenant_id = p_tenant_id and h.id = m.job_id
              and h.finished_at >= i.created_at - interval '1 day'
            limit 1) as f on true
     where m.job_id is not null
     order by i.place || m.position
$$;
