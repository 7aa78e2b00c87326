-- The tenant that a slug stands for. For back ends, workers and operators: it tells which slugs
-- exist. With app.tenant_id set, only that tenant's own. Raises JF004.
create or replace function jobforge.find_tenant(p_slug text) returns uuid
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant uuid := jobforge.tenant();
    v_id uuid := (select t.id from jobforge.tenants as t
                   where t.slug = p_slug and (v_tenant is null or t.id = v_tenant));
begin
    if v_id is null then
        perform jobforge.refuse('JF004', format('there is no tenant %s', p_slug),
            jsonb_build_object('slug', p_slug));
    end if;
    return v_id;
end $$;
