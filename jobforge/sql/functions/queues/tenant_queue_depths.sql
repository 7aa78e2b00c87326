-- Returns the number of a tenant's jobs by queue, counted among the newest 100,000 of its live and
-- dead jobs. The oldest queued job is exact beyond that, because the head of the queue is read too.
-- Called by list_queues.
create or replace function jobforge_private.tenant_queue_depths(p_tenant_id uuid)
returns table (
    name text, queued bigint, running bigint, scheduled bigint, oldest_queued_at timestamptz
)
language plpgsql stable
as $$
#variable_conflict use_column
begin
    return query
    select c.queue, c.queued, c.running, c.scheduled,
           least(c.oldest,
                 (select h.queued_at from jobforge.jobs as h
                   where h.queue = c.queue and h.tenant_id = p_tenant_id
                     and h.state = 'queued' and h.gate is null
                   order by - h.priority::integer, h.run_at, h.id
                   limit 1))
      from (select j.queue,
                   count(*) filter (where j.state = 'queued') as queued,
                   count(*) filter (where j.state = 'running') as running,
                   count(*) filter (where j.state = 'scheduled') as scheduled,
                   min(j.queued_at) filter (where j.state = 'queued') as oldest
              from (select w.queue, w.state, w.queued_at
                      from jobforge.jobs as w
                     where w.tenant_id = p_tenant_id
                     order by w.id desc
                     limit 100000) as j
             where j.state in ('queued', 'running', 'scheduled')
             group by j.queue) as c;
end $$;
