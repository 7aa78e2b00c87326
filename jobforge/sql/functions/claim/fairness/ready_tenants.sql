-- The tenants that have plain ready jobs in a queue, in order, from p_from (inclusive) to p_below
-- (exclusive), p_limit at most, each with the place and the row of its first job: one index probe
-- for each, however many jobs they have. Called by find_turns.
create or replace function jobforge_private.ready_tenants(
    p_queue text,
    p_from uuid,
    p_below uuid,
    p_limit integer
) returns jobforge.turn[]
language plpgsql
as $$
begin
    return array(
        with recursive ready as (
            (select j.tenant_id, - j.priority::integer as rank, j.run_at, j.id, j.ctid
               from jobforge.jobs as j
              where j.queue = p_queue and j.state = 'queued' and j.gate is null
                and j.tenant_id >= p_from and j.tenant_id < p_below
              order by j.tenant_id, - j.priority::integer, j.run_at, j.id
              limit 1)
            union all
            select n.*
              from ready as r
             cross join lateral (
                select j.tenant_id, - j.priority::integer as rank, j.run_at, j.id, j.ctid
                  from jobforge.jobs as j
                 where j.queue = p_queue and j.state = 'queued' and j.gate is null
                   and j.tenant_id > r.tenant_id and j.tenant_id < p_below
                 order by j.tenant_id, - j.priority::integer, j.run_at, j.id
                 limit 1) as n
        )
        select row(r.tenant_id, r.rank, r.run_at, r.id, 0, r.ctid)::jobforge.turn
          from ready as r
         limit p_limit);
end $$;
