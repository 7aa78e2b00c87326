-- Back ends, workers and operators call this: returns the ID of the tenant with a slug. It reveals
-- which slugs exist, so clients cannot call it. With app.tenant_id set, finds only that tenant; a
-- bound login finds only its tenants. Raises JF004, JF006.
create or replace function jobforge.find_tenant(p_slug text) returns uuid
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bound uuid[] := jobforge_private.bound_tenants();
    -- A login that is bound to several tenants may search for the one that it will set.
    v_tenant uuid := case when cardinality(v_bound) <> 1
                               and coalesce(current_setting('app.tenant_id', true), '') = ''
                          then null else jobforge.tenant() end;
    v_id uuid := (select t.id from jobforge.tenants as t
                   where t.slug = p_slug and (v_tenant is null or t.id = v_tenant)
                     and (v_bound is null or t.id = any (v_bound)));
begin
    if v_id is null then
        perform jobforge_private.refuse('JF004', format('Tenant ''%s'' not found', p_slug),
            jsonb_build_object('slug', p_slug));
    end if;
    return v_id;
end $$;
