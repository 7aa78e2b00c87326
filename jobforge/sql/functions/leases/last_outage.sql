-- The last outage as the reaper has to count it at p_now. If nobody who reaps these jobs has
-- called reap_jobs for more than five seconds, that is an outage that ends now; one within a minute
-- of the end of the last outage continues it. Without p_now only noted outages count. p_tenant is
-- the tenant of the jobs, or null for all tenants. Called by reap_jobs and explain_running. Only
-- reads.
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
