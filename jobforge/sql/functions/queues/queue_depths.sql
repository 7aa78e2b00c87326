-- Returns the number of jobs of all tenants by queue, in several rows per queue. Queued jobs are
-- counted up to 10,000 with and without a gate, for 1,000 queues; scheduled ones among the 100,000
-- that are due first; running ones all. Called by list_queues and read_gauges.
create or replace function jobforge_private.queue_depths()
returns table (
    name text, queued bigint, running bigint, scheduled bigint, oldest_queued_at timestamptz
)
language plpgsql stable
as $$
#variable_conflict use_column
begin
    return query
    select q.name, c.jobs, 0::bigint, 0::bigint, c.oldest
      from jobforge_private.queues_in_use() as q(name)
     cross join lateral (
        select count(*) as jobs, min(r.queued_at) as oldest
          from (select j.queued_at from jobforge.jobs as j
                 where j.queue = q.name and j.state = 'queued' and j.gate is null
                 limit 10000) as r
        union all
        select count(*), min(g.queued_at)
          from (select j.queued_at from jobforge.jobs as j
                 where j.queue = q.name and j.state = 'queued' and j.gate is not null
                 limit 10000) as g) as c
    union all
    select j.queue, 0, count(*), 0, null
      from jobforge.jobs as j
     where j.state = 'running' and j.lease_expires_at > '-infinity'
     group by j.queue
    union all
    select s.queue, 0, 0, count(*), null
      from (select j.queue from jobforge.jobs as j
             where j.state = 'scheduled' order by j.run_at limit 100000) as s
     group by s.queue;
end $$;
