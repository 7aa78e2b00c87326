-- Returns the tenant of a call to a function that operators may also call for the whole
-- installation: the tenant that is set or named, or null for all tenants. An operator is a login in
-- jobforge_admin or jobforge_server; for any other login this is require_tenant. Raises JF001,
-- JF006, JF014.
create or replace function jobforge_private.tenant_or_all(p_tenant_id uuid) returns uuid
language plpgsql stable
as $$
begin
    -- Roles first: a login that is bound to several tenants may name one by the argument alone.
    if (pg_has_role(session_user, 'jobforge_admin', 'usage')
        or pg_has_role(session_user, 'jobforge_server', 'usage'))
       and jobforge.tenant() is null then
        return p_tenant_id;
    end if;
    return jobforge_private.require_tenant(p_tenant_id);
end $$;
