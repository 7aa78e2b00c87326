-- Servers and operators call this for the firings of all tenants that created no job: the latest
-- p_limit that were skipped or failed, and why. Only reads. Raises JF002, and JF006 for a caller
-- with a tenant.
create or replace function jobforge.list_missed_firings(p_limit integer default 50)
returns table (
    tenant_id uuid, trigger_id uuid, label text, fire_at timestamptz, at timestamptz, kind text,
    outcome text, reason text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform jobforge_private.check_limit(p_limit, 200);
    perform jobforge_private.require_no_tenant();
    return query
    select f.tenant_id, f.trigger_id, coalesce(t.label, f.trigger_id::text), f.fire_at, f.at,
           f.kind, f.outcome, f.reason
      from jobforge.firings as f
      left join jobforge.triggers as t on t.tenant_id = f.tenant_id and t.id = f.trigger_id
     where f.outcome in ('skipped', 'failed')
     order by f.at desc, f.fire_at desc, f.trigger_id
     limit p_limit;
end $$;
