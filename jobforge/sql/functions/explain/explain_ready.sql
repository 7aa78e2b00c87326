-- Explains a ready job that only waits for a slot: how many of the tenant's own jobs in the queue
-- come before it (counted up to 1,000), and how long it has waited. Called by explain_job.
create or replace function jobforge_private.explain_ready(
    p_job jobforge.all_jobs,
    p_now timestamptz
)
returns table (code text, message text, remedy text, detail jsonb)
language sql stable
as $$
    select 'waiting_slot',
           case a.ahead
               when 0 then format('Ready since %s; the first of the tenant''s jobs in '
                                  'queue %s.', p_job.queued_at, p_job.queue)
               else format('Ready since %s; %s of the tenant''s jobs in queue %s run first.',
                           p_job.queued_at,
                           case when a.ahead < 1000 then a.ahead::text else '1000 or more' end,
                           p_job.queue) end,
           'Wait, raise the job''s priority, or add workers.',
           jsonb_build_object('queued_at', p_job.queued_at, 'ahead', a.ahead,
                              'waited_s', extract(epoch from p_now - p_job.queued_at))
      from (select count(*) as ahead
              from (select from ((select from jobforge.jobs as j
                                   where j.queue = p_job.queue and j.tenant_id = p_job.tenant_id
                                     and j.state = 'queued' and j.gate is null
                                     and (- j.priority::integer, j.run_at, j.id)
                                         < (- p_job.priority::integer, p_job.run_at, p_job.id)
                                   limit 1000)
                                 union all
                                 (select from jobforge.jobs as j
                                   where j.queue = p_job.queue and j.tenant_id = p_job.tenant_id
                                     and j.state = 'queued' and j.gate is not null
                                     and (- j.priority::integer, j.run_at, j.id)
                                         < (- p_job.priority::integer, p_job.run_at, p_job.id)
                                   limit 1000)) as q
                     limit 1000) as first) as a
$$;
