-- Operators call this for the usage of each tenant from p_since (default: a day ago) to p_until
-- (default: now), in whole minutes: attempts that ended, their run time and CPU time, and the
-- highest memory of one attempt. With app.tenant_id set, only that tenant. Raises JF002.
create or replace function jobforge.meter_tenants(
    p_since timestamptz default null,
    p_until timestamptz default null
) returns table (
    tenant_id uuid, slug text, attempts bigint, run_s double precision, cpu_s double precision,
    peak_memory_bytes bigint
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge.tenant();
    v_until timestamptz := coalesce(p_until, jobforge_private.now());
    v_since timestamptz := coalesce(p_since, v_until - interval '1 day');
begin
    perform jobforge_private.check_period(v_since, v_until);
    return query
    select u.tenant_id, t.slug, u.attempts, u.run_s, u.cpu_s, u.peak_memory_bytes
      from (select s.tenant_id,
                   sum(s.succeeded + s.failed + s.dead + s.canceled + s.released)::bigint
                       as attempts,
                   sum(s.run_ms)::double precision / 1000 as run_s,
                   sum(s.cpu_ms)::double precision / 1000 as cpu_s,
                   max(s.peak_memory_bytes) as peak_memory_bytes
              from jobforge.minute_statistics as s
             where s.minute >= date_bin('1 minute', v_since, '2000-01-01 00:00+00')
               and s.minute < v_until
               and (v_tenant is null or s.tenant_id = v_tenant)
             group by s.tenant_id) as u
      left join jobforge.tenants as t on t.id = u.tenant_id
     order by u.tenant_id;
end $$;
