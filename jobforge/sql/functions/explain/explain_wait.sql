-- Explains a job that waits in the middle of an attempt; returns no row for any other job. Called
-- by explain_job.
create or replace function jobforge_private.explain_wait(p_job jobforge.all_jobs)
returns table (code text, message text, remedy text, detail jsonb)
language sql stable
as $$
    select case w.kind when 'sleep' then 'sleeping' when 'event' then 'waiting_event'
                       else 'waiting_children' end,
           case w.kind
               when 'sleep' then format('Sleeping until %s.', p_job.run_at)
               when 'event' then format('Waiting until %s for the event %s%s.', p_job.run_at,
                    w.name, case when m.match <> '{}' then ' with ' || m.match::text end)
               else format('Waiting for %s of %s gathered jobs.', c.open,
                           cardinality(w.jobs)) end,
           case w.kind
               when 'sleep' then 'Wait, or reschedule the job to end the sleep.'
               when 'event' then 'Emit the event, or reschedule the job to end the wait as if '
                    || 'it had timed out.'
               else 'Wait for these jobs, or cancel them. This job continues when all '
                    || 'are finished.' end,
           jsonb_strip_nulls(jsonb_build_object(
               'since', w.since, 'until', case when w.kind <> 'gather' then p_job.run_at end,
               'event', case when w.kind = 'event' then w.name end,
               'match', case when w.kind = 'event' then m.match end,
               'jobs', c.jobs))
      from jobforge.waits as w
     cross join lateral (select jobforge_private.readable(w.match) as match) as m
      left join lateral (
           select count(*) as open,
                  jsonb_agg(jsonb_build_object('job_id', j.id, 'state', j.state))
                      filter (where j.turn <= 100) as jobs
             from (select k.id, k.state, row_number() over () as turn
                     from unnest(array(select g from unnest(w.jobs) as g order by g)) as o(id)
                    cross join lateral (
                       select q.id, q.state from jobforge.jobs as q
                        where q.tenant_id = w.tenant_id and q.id = o.id
                          and q.state <> 'dead') as k) as j) as c on w.kind = 'gather'
     where w.tenant_id = p_job.tenant_id and w.job_id = p_job.id
       and p_job.state in ('scheduled', 'blocked')
$$;
