-- Operators who change the installation's key call this: returns a page of tenant keys in order of
-- tenant, except those that p_key_id has already wrapped. p_after is the last tenant of the
-- previous page. Raises JF001, JF002, JF006.
create or replace function jobforge.list_tenant_keys(
    p_key_id text,
    p_limit integer default 100,
    p_after uuid default null,
    p_tenant_id uuid default null
) returns table (tenant_id uuid, key_id text, wrapped bytea)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.tenant_or_all(p_tenant_id);
begin
    perform jobforge_private.check_limit(p_limit, 200);
    return query
    select k.tenant_id, k.key_id, k.wrapped
      from jobforge.tenant_keys as k
     where (v_tenant is null or k.tenant_id = v_tenant)
       and k.key_id is distinct from p_key_id
       and (p_after is null or k.tenant_id > p_after)
     order by k.tenant_id
     limit p_limit;
end $$;
