-- The tenant that a slug stands for. For back ends, workers and operators: it tells which slugs
-- exist. With app.tenant_id set, only that tenant's own; a login that is bound to tenants finds
-- only these. Raises JF004, JF006.
create or replace function jobforge.find_tenant(p_slug text) returns uuid
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bound uuid[] := jobforge_private.bound_tenants();
    -- A login that is bound to several looks for the one that it is about to set.
    v_tenant uuid := case when cardinality(v_bound) <> 1
                               and coalesce(current_setting('app.tenant_id', true), '') = ''
                          then null else jobforge.tenant() end;
    v_id uuid := (select t.id from jobforge.tenants as t
                   where t.slug = p_slug and (v_tenant is null or t.id = v_tenant)
                     and (v_bound is null or t.id = any (v_bound)));
begin
    if v_id is null then
        perform jobforge_private.refuse('JF004', format('there is no tenant %s', p_slug),
            jsonb_build_object('slug', p_slug));
    end if;
    return v_id;
end $$;
