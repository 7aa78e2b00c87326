-- Returns a page of a tenant's API keys, newest first, including expired and revoked keys, without
-- hashes. Operators without a tenant get the keys of all tenants. p_before is the last ID of the
-- previous page. Raises JF001, JF002, JF006.
create or replace function jobforge.list_api_keys(
    p_limit integer default 50,
    p_before uuid default null,
    p_tenant_id uuid default null
) returns table (
    id uuid, tenant_id uuid, name text, role text, lookup text, scopes text[],
    created_at timestamptz, created_by text, expires_at timestamptz, revoked_at timestamptz,
    last_used_at timestamptz, rotated_from uuid
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.tenant_or_all(p_tenant_id);
begin
    perform jobforge_private.check_limit(p_limit, 200);
    return query
    select k.id, k.tenant_id, k.name, k.role, k.lookup, k.scopes, k.created_at, k.created_by,
           k.expires_at, k.revoked_at, k.last_used_at, k.rotated_from
      from jobforge.api_keys as k
     where (v_tenant is null or k.tenant_id = v_tenant)
       and (p_before is null or k.id < p_before)
     order by k.id desc
     limit p_limit;
end $$;
