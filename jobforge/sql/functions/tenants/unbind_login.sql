-- Operators call this to remove the binding of a login, which may then act for any tenant that it
-- names. The login need not exist any more. Audited. Raises JF004 if it is not bound, and JF006 for
-- a caller with a tenant.
create or replace function jobforge.unbind_login(p_login text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform jobforge_private.require_no_tenant();
    delete from jobforge.bound_logins as b where b.login = p_login;
    if not found then
        perform jobforge_private.refuse('JF004', format('Login ''%s'' is not bound', p_login),
            jsonb_build_object('login', p_login));
    end if;
    perform jobforge_private.audit(null, 'login.unbind', p_login);
end $$;
