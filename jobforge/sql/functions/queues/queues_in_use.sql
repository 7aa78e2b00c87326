-- Returns the names of queues that have queued jobs of any tenant, 1,000 at most. A skip scan: one
-- index probe per queue, however many jobs it has. Called by queue_depths.
create or replace function jobforge_private.queues_in_use() returns setof text
language plpgsql stable
as $$
begin
    return query
    with recursive ready as (
        (select j.queue from jobforge.jobs as j
          where j.state = 'queued' and j.gate is null order by j.queue limit 1)
        union all
        select n.queue
          from ready as r
         cross join lateral (
            select j.queue from jobforge.jobs as j
             where j.state = 'queued' and j.gate is null and j.queue > r.queue
             order by j.queue
             limit 1) as n
    ), gated as (
        (select j.queue from jobforge.jobs as j
          where j.state = 'queued' and j.gate is not null order by j.queue limit 1)
        union all
        select n.queue
          from gated as g
         cross join lateral (
            select j.queue from jobforge.jobs as j
             where j.state = 'queued' and j.gate is not null and j.queue > g.queue
             order by j.queue
             limit 1) as n
    )
    (select r.queue from ready as r limit 1000)
    union
    (select g.queue from gated as g limit 1000);
end $$;
