-- The tenant that a function is confined to which operators may also call for the installation:
-- the one set or named, else null, which is all of them. An operator is who logs in as a member
-- of jobforge_admin or jobforge_server; to everybody else it is require_tenant. Raises JF001,
-- JF006.
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
