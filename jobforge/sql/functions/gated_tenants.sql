-- The tenants that have ready jobs under limits in a queue; otherwise as ready_tenants.
create or replace function jobforge.gated_tenants(
    p_queue text,
    p_from uuid,
    p_below uuid,
    p_limit integer
) returns table (tenant_id uuid)
language plpgsql
as $$
begin
    return query
    with recursive gated as (
        (select j.tenant_id
           from jobforge.jobs as j
          where j.queue = p_queue and j.state = 'queued' and j.gate is not null
            and j.tenant_id >= p_from and j.tenant_id < p_below
          order by j.tenant_id
          limit 1)
        union all
        select n.*
          from gated as g
         cross join lateral (
            select j.tenant_id
              from jobforge.jobs as j
             where j.queue = p_queue and j.state = 'queued' and j.gate is not null
               and j.tenant_id > g.tenant_id and j.tenant_id < p_below
             order by j.tenant_id
             limit 1) as n
    )
    select g.tenant_id from gated as g limit p_limit;
end $$;
