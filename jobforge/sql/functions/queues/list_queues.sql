-- Returns the queues by name, 1,000 at most, with their limits and the number of the tenant's jobs
-- in each; operators without a tenant get the jobs of all tenants. Includes queues that have
-- settings, that a definition names, or that have jobs. Counts are limited as in queue_depths.
-- Raises JF001, JF006.
create or replace function jobforge.list_queues(p_tenant_id uuid default null)
returns table (
    name text, paused_at timestamptz, max_running integer, rate_limit integer,
    rate_period_s double precision, rate_burst integer, queued bigint, running bigint,
    scheduled bigint, oldest_queued_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.tenant_or_all(p_tenant_id);
begin
    return query
    with depths as materialized (
        select d.name, sum(d.queued)::bigint as queued, sum(d.running)::bigint as running,
               sum(d.scheduled)::bigint as scheduled, min(d.oldest_queued_at) as oldest_queued_at
          from (select * from jobforge_private.tenant_queue_depths(v_tenant)
                 where v_tenant is not null
                union all
                select * from jobforge_private.queue_depths() where v_tenant is null) as d
         group by d.name
    ), known as (
        select q.name from jobforge.queues as q
        union
        select d.queue from jobforge.definitions as d
        union
        select d.name from depths as d
         order by 1
         limit 1000
    )
    select k.name, q.paused_at, q.max_running, q.rate_limit, q.rate_period_s, q.rate_burst,
           coalesce(d.queued, 0), coalesce(d.running, 0), coalesce(d.scheduled, 0),
           d.oldest_queued_at
      from known as k
      left join jobforge.queues as q on q.name = k.name
      left join depths as d on d.name = k.name
     order by k.name;
end $$;
