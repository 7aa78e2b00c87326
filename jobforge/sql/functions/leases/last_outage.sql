-- Returns the last outage as of p_now. An outage is a period of more than five seconds in which no
-- process that reaps these jobs has called reap_jobs; one that ends now continues the last one if
-- that ended within a minute before. Without p_now, only recorded outages count. p_tenant is the
-- tenant of the jobs, or null for all tenants. Called by reap_jobs and explain_running. Only reads.
create or replace function jobforge_private.last_outage(
    p_tenant uuid,
    p_now timestamptz,
    out outage_from timestamptz,
    out outage_until timestamptz
)
language sql stable
as $$
    select case when not g.is_new then o.outage_from
                when o.outage_until > g.reaped_at - interval '1 minute' then o.outage_from
                else g.reaped_at end,
           case when g.is_new then p_now else o.outage_until end
      from (select max(r.reaped_at) as reaped_at,
                   coalesce(p_now - max(r.reaped_at) > interval '5 seconds', false) as is_new
              from jobforge.reaper as r
             where r.tenant_id in ('00000000-0000-0000-0000-000000000000', p_tenant)) as g
      left join lateral (
            select r.outage_from, r.outage_until from jobforge.reaper as r
             where r.tenant_id in ('00000000-0000-0000-0000-000000000000', p_tenant)
               and r.outage_until is not null
             order by r.outage_until desc limit 1) as o on true
$$;
