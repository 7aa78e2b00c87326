-- Servers call this for the tenants that a client is watching: returns the number of each tenant's
-- jobs by queue and state, and since when the oldest queued one waits. Reads the oldest 10,000 jobs
-- of a tenant; if it has more, is_exact is false. With app.tenant_id set, only that tenant. Raises
-- JF006.
create or replace function jobforge.count_states(p_tenants uuid[])
returns table (
    tenant_id uuid, queue text, state text, jobs bigint, oldest_queued_at timestamptz,
    is_exact boolean
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
    select t.id, j.queue, j.state, count(*), min(j.queued_at) filter (where j.state = 'queued'),
           bool_and(j.n < 10000)
      from unnest(jobforge_private.claimable_tenants(p_tenants)) as t(id)
     cross join lateral (
           select b.queue, b.queued_at, count(*) over () as n,
                  case when b.cancel_requested_at is null then b.state else 'canceling' end as state
             from (select l.queue, l.queued_at, l.state, l.cancel_requested_at
                     from jobforge.jobs as l
                    where l.tenant_id = t.id
                    order by l.id
                    limit 10000) as b) as j
     group by t.id, j.queue, j.state
     order by t.id, j.queue, j.state
$$;
