-- Returns the number of queued jobs of the p_tenants tenants with the most, and of all others
-- together as `other`. Reads 500 pairs of queue and tenant, with and without gates, and 1,000 jobs
-- of each; those returned are counted up to 10,000 in each queue. Skip scans. Called by
-- read_gauges.
create or replace function jobforge_private.queued_by_tenant(p_tenants integer)
returns table (tenant text, jobs bigint)
language plpgsql stable
as $$
#variable_conflict use_column
begin
    return query
    with recursive ready as (
        (select j.queue, j.tenant_id from jobforge.jobs as j
          where j.state = 'queued' and j.gate is null order by j.queue, j.tenant_id limit 1)
        union all
        select n.queue, n.tenant_id
          from ready as r
         cross join lateral (
            select j.queue, j.tenant_id from jobforge.jobs as j
             where j.state = 'queued' and j.gate is null
               and (j.queue, j.tenant_id) > (r.queue, r.tenant_id)
             order by j.queue, j.tenant_id
             limit 1) as n
    ), gated as (
        (select j.queue, j.tenant_id from jobforge.jobs as j
          where j.state = 'queued' and j.gate is not null order by j.queue, j.tenant_id limit 1)
        union all
        select n.queue, n.tenant_id
          from gated as g
         cross join lateral (
            select j.queue, j.tenant_id from jobforge.jobs as j
             where j.state = 'queued' and j.gate is not null
               and (j.queue, j.tenant_id) > (g.queue, g.tenant_id)
             order by j.queue, j.tenant_id
             limit 1) as n
    ), pairs as materialized (
        (select r.queue, r.tenant_id, false as is_gated from ready as r limit 500)
        union all
        (select g.queue, g.tenant_id, true from gated as g limit 500)
    ), ranked as materialized (
        select t.tenant_id, t.jobs, row_number() over (order by t.jobs desc, t.tenant_id) as rank
          from (select p.tenant_id, sum(c.jobs)::bigint as jobs
                  from pairs as p
                 cross join lateral
                       jobforge_private.count_queued(p.queue, p.tenant_id, p.is_gated,
                                                     1000) as c(jobs)
                 group by p.tenant_id) as t
    )
    select r.tenant_id::text, sum(c.jobs)::bigint
      from ranked as r
      join pairs as p on p.tenant_id = r.tenant_id
     cross join lateral jobforge_private.count_queued(p.queue, p.tenant_id, p.is_gated,
                                                      10000) as c(jobs)
     where r.rank <= p_tenants
     group by r.tenant_id
    union all
    select 'other', sum(r.jobs)::bigint from ranked as r where r.rank > p_tenants
    having count(*) > 0;
end $$;
