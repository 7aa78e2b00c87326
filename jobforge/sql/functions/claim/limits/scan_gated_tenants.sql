-- Returns the next tenants that have ready jobs with a gate in a queue, in order, from p_from
-- (inclusive, or exclusive if p_is_after) to p_below (exclusive), p_limit at most. A skip scan.
-- Tenants in p_full, a sorted list of tenants in that range, are left out at the cost of one index
-- probe each, about a third of a step of the scan. Called by open_tenants.
create or replace function jobforge_private.scan_gated_tenants(
    p_queue text,
    p_from uuid,
    p_below uuid,
    p_is_after boolean,
    p_limit integer,
    p_full uuid[] default '{}'
) returns uuid[]
language plpgsql
as $$
begin
    return array(
        select f.tenant_id
          from (select p_from
                 where not p_is_after
                   and exists (select from jobforge.jobs as j
                                where j.queue = p_queue and j.state = 'queued'
                                  and j.gate is not null and j.tenant_id = p_from)
                union all
                select w.tenant_id
                  -- The ranges between full tenants, most of which are empty.
                  from unnest(p_from || p_full, p_full || p_below) as g(above, below)
                 cross join lateral (
                    with recursive walked as (
                        (select j.tenant_id
                           from jobforge.jobs as j
                          where j.queue = p_queue and j.state = 'queued' and j.gate is not null
                            and j.tenant_id > g.above and j.tenant_id < g.below
                          order by j.tenant_id
                          limit 1)
                        union all
                        select s.tenant_id
                          from walked as k
                         cross join lateral (
                            select j.tenant_id
                              from jobforge.jobs as j
                             where j.queue = p_queue and j.state = 'queued'
                               and j.gate is not null
                               and j.tenant_id > k.tenant_id and j.tenant_id < g.below
                             order by j.tenant_id
                             limit 1) as s
                    )
                    select k.tenant_id from walked as k) as w
                 where exists (
                    select from jobforge.jobs as j
                     where j.queue = p_queue and j.state = 'queued' and j.gate is not null
                       and j.tenant_id > g.above and j.tenant_id < g.below)
               ) as f(tenant_id)
         limit p_limit);
end $$;
