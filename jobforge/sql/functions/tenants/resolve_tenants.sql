-- Returns the tenants that a declaration in code names: an ID, a slug, or * for all tenants with
-- settings. For a caller with a tenant, * is that tenant, and it can name no other (JF006). Called
-- by declare_triggers. Raises JF002, JF004, JF006, JF014.
create or replace function jobforge_private.resolve_tenants(p_name text) returns uuid[]
language plpgsql stable
as $$
declare
    v_own uuid := jobforge.tenant();
    v_tenants uuid[];
begin
    if p_name = '*' then
        v_tenants := case when v_own is not null then array[v_own]
                          else array(select t.id from jobforge.tenants as t
                                      where t.erased_at is null order by t.id) end;
    elsif p_name ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' then
        v_tenants := array[p_name::uuid];
    elsif p_name is null then
        perform jobforge_private.refuse('JF002', 'tenant is required', '{"field": "tenant"}');
    else
        v_tenants := array[jobforge.find_tenant(p_name)];
    end if;
    if v_own is not null and v_tenants <> array[v_own] then
        perform jobforge_private.refuse('JF006',
            'The given tenant differs from the transaction''s tenant');
    end if;
    if exists (select from unnest(v_tenants) as t(id) where jobforge_private.is_erased(t.id)) then
        perform jobforge_private.refuse('JF014', 'The tenant is erased',
            jsonb_build_object('tenant', p_name));
    end if;
    return v_tenants;
end $$;
