-- Returns the tenants from p_from (inclusive) to p_below (exclusive) that have ungated ready jobs
-- in a queue, in order, p_limit at most, each with its head and that job's row. A skip scan: one
-- index probe per tenant, however many jobs it has. Called by find_ready_tenants. Takes no locks.
create or replace function jobforge_private.scan_ready_tenants(
    p_queue text,
    p_from uuid,
    p_below uuid,
    p_limit integer
) returns jobforge.tenant_head[]
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
        select row(r.tenant_id, r.rank, r.run_at, r.id, 0, r.ctid)::jobforge.tenant_head
          from ready as r
         limit p_limit);
end $$;
