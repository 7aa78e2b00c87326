-- Returns a page of the tenant's configurations by name, without their secrets. p_after is the last
-- name of the previous page. Raises JF001, JF002, JF006, JF014.
create or replace function jobforge.list_connector_configs(
    p_limit integer default 50,
    p_after text default null,
    p_tenant_id uuid default null
) returns table (
    id uuid, name text, connector text, settings jsonb, secrets jsonb, created_at timestamptz,
    created_by text, updated_at timestamptz, updated_by text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    perform jobforge_private.check_limit(p_limit, 200);
    return query
    select c.id, c.name, c.connector,
           jobforge_private.readable(c.settings, 67108864 / p_limit),
           jobforge_private.mask_secrets(c.secrets), c.created_at, c.created_by, c.updated_at,
           c.updated_by
      from jobforge.connector_configs as c
     where c.tenant_id = v_tenant and (p_after is null or c.name > p_after)
     order by c.name
     limit p_limit;
end $$;
