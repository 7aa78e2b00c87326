-- Operators call this for the tenants that have settings, by slug. Tenants that only have jobs have
-- no row, and erased ones are not listed. With app.tenant_id set, returns only that tenant. Raises
-- nothing.
create or replace function jobforge.list_tenants()
returns table (
    id uuid, slug text, name text, timezone text, weight integer, max_running integer,
    max_pending integer, rate_limit integer, paused_at timestamptz, created_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select t.id, t.slug, t.name, t.timezone, t.weight, t.max_running, t.max_pending, t.rate_limit,
           t.paused_at, t.created_at
      from jobforge.tenants as t
     where t.erased_at is null and (jobforge.tenant() is null or t.id = jobforge.tenant())
     order by t.slug, t.id;
end $$;
