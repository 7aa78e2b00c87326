-- Explains a blocked job by the parents that it still waits for: the first twenty by ID, with the
-- state of each. A parent that is dead or canceled comes first, because it must be retried. Called
-- by explain_job.
create or replace function jobforge_private.explain_parents(p_job jobforge.all_jobs)
returns table (code text, message text, remedy text, detail jsonb)
language sql stable
as $$
    with awaited as materialized (
        select a.job_id, coalesce(j.state, f.state, 'forgotten') as state,
               coalesce(j.definition, f.definition) as definition, a.on_parent_failure
          from jobforge.awaited_jobs as a
          left join jobforge.jobs as j on j.tenant_id = a.tenant_id and j.id = a.job_id
          left join lateral (
               select h.state, h.definition from jobforge.finished_jobs as h
                where j.id is null and h.tenant_id = a.tenant_id and h.id = a.job_id
                limit 1) as f on true
         where a.tenant_id = p_job.tenant_id and a.waiter_id = p_job.id
         order by coalesce(j.state, f.state) not in ('dead', 'canceled'), a.job_id
         limit 20
    ), counted as (
        select count(*) as parents
          from (select from jobforge.awaited_jobs as a
                 where a.tenant_id = p_job.tenant_id and a.waiter_id = p_job.id
                 limit 1000) as few
    )
    select 'waiting_parents',
           format('Waiting for %s%s.',
                  case when c.parents = 1 then '1 parent'
                       when c.parents < 1000 then c.parents || ' parents'
                       else '1000 or more parents' end,
                  (select ': ' || string_agg(
                              format('%s %s is %s', w.definition, w.job_id, w.state), ', ')
                     from (select * from awaited limit 3) as w)),
           case when (select bool_or(w.state in ('dead', 'canceled')) from awaited as w)
                then 'Retry the parent that did not succeed, or cancel this job.'
                else 'Wait for the parents, or cancel this job.' end,
           jsonb_build_object('waiting_for', c.parents, 'parents', (
               select coalesce(jsonb_agg(to_jsonb(w)), '[]') from awaited as w))
      from counted as c
$$;
