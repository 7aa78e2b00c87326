-- Applications call this for sums over a tenant's attempts from p_since (default: an hour ago) to
-- p_until (default: now), in steps of p_step_s (whole minutes; 0: one step), and by definition or
-- queue with p_by. Operators without a tenant get the sums of all tenants. The filter's fields are
-- optional: definition, queue. Steps without attempts are left out, and attempts of the last
-- seconds may be missing. Percentiles come from histograms (duration_bounds). Raises JF001, JF002,
-- JF006.
create or replace function jobforge.get_statistics(
    p_since timestamptz default null,
    p_until timestamptz default null,
    p_step_s integer default 60,
    p_filter jsonb default '{}',
    p_by text default null,
    p_tenant_id uuid default null
) returns table (
    at timestamptz, definition text, queue text, attempts bigint, succeeded bigint, failed bigint,
    dead bigint, canceled bigint, released bigint, wait_ms bigint, run_ms bigint, cpu_ms bigint,
    peak_memory_bytes bigint, wait_p50_ms double precision, wait_p95_ms double precision,
    run_p50_ms double precision, run_p95_ms double precision
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.tenant_or_all(p_tenant_id);
    v_until timestamptz := coalesce(p_until, jobforge_private.now());
    v_since timestamptz := coalesce(p_since, v_until - interval '1 hour');
    v_step interval := make_interval(secs => case p_step_s when 0 then 60 else p_step_s end);
    v_first timestamptz;
begin
    perform jobforge_private.check_filter(p_filter, '{definition,queue}', '{}');
    perform jobforge_private.check_period(v_since, v_until);
    if p_step_s is null or p_step_s not between 0 and 86400 or p_step_s % 60 <> 0
       or p_step_s > 0 and date_part('epoch', v_until - v_since) > 2000.0 * p_step_s then
        perform jobforge_private.refuse('JF002',
            'step_s must be a multiple of 60 and at most 86400, '
            || 'and the period must have at most 2000 steps', '{"field": "step_s"}');
    elsif p_by not in ('definition', 'queue') then
        perform jobforge_private.refuse('JF002', 'by must be definition or queue',
            '{"field": "by"}');
    end if;
    v_first := date_bin(v_step, v_since, '2000-01-01 00:00+00');
    return query
    with picked as (
        select case when p_step_s = 0 then v_first
                    else date_bin(v_step, s.minute, '2000-01-01 00:00+00') end as at,
               case when p_by = 'definition' then s.definition end as definition,
               case when p_by = 'queue' then s.queue end as queue, s.succeeded, s.failed,
               s.dead, s.canceled, s.released, s.wait_ms, s.run_ms, s.cpu_ms,
               s.peak_memory_bytes, s.wait_histogram, s.run_histogram
          from jobforge.minute_statistics as s
         where s.minute >= v_first and s.minute < v_until
           and (v_tenant is null or s.tenant_id = v_tenant)
           and (not p_filter ? 'definition' or s.definition = p_filter ->> 'definition')
           and (not p_filter ? 'queue' or s.queue = p_filter ->> 'queue')
    ), summed as (
        select p.at, p.definition, p.queue, sum(p.succeeded)::bigint as succeeded,
               sum(p.failed)::bigint as failed, sum(p.dead)::bigint as dead,
               sum(p.canceled)::bigint as canceled, sum(p.released)::bigint as released,
               sum(p.wait_ms)::bigint as wait_ms, sum(p.run_ms)::bigint as run_ms,
               sum(p.cpu_ms)::bigint as cpu_ms, max(p.peak_memory_bytes) as peak_memory_bytes
          from picked as p
         group by p.at, p.definition, p.queue
    ), spread as (
        select b.at, b.definition, b.queue, array_agg(b.waits order by b.n) as waits,
               array_agg(b.runs order by b.n) as runs
          from (select p.at, p.definition, p.queue, h.n, sum(h.waits) as waits,
                       sum(h.runs) as runs
                  from picked as p
                 cross join unnest(p.wait_histogram, p.run_histogram)
                       with ordinality as h(waits, runs, n)
                 group by p.at, p.definition, p.queue, h.n) as b
         group by b.at, b.definition, b.queue
    )
    select s.at, s.definition, s.queue,
           s.succeeded + s.failed + s.dead + s.canceled + s.released, s.succeeded, s.failed,
           s.dead, s.canceled, s.released, s.wait_ms, s.run_ms, s.cpu_ms, s.peak_memory_bytes,
           jobforge_private.percentile_ms(h.waits, 0.5),
           jobforge_private.percentile_ms(h.waits, 0.95),
           jobforge_private.percentile_ms(h.runs, 0.5), jobforge_private.percentile_ms(h.runs, 0.95)
      from summed as s
      join spread as h on h.at = s.at and h.definition is not distinct from s.definition
       and h.queue is not distinct from s.queue
     order by s.at, s.definition, s.queue;
end $$;
