-- The server calls this to look up the key of a request, including expired and revoked keys. The
-- server compares the hash. Returns no row for an unknown lookup. Raises nothing.
create or replace function jobforge.find_api_key(p_lookup text)
returns table (
    id uuid, tenant_id uuid, role text, scopes text[], hash bytea, expires_at timestamptz,
    revoked_at timestamptz, last_used_at timestamptz, is_live boolean
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select k.id, k.tenant_id, k.role, k.scopes, k.hash, k.expires_at, k.revoked_at, k.last_used_at,
           k.revoked_at is null and coalesce(k.expires_at > jobforge_private.now(), true)
      from jobforge.api_keys as k
     where k.lookup = p_lookup;
end $$;
