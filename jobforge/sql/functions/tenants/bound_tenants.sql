-- Returns the tenants to which the session's login is bound, or null if it is not bound.
create or replace function jobforge_private.bound_tenants() returns uuid[]
language sql stable
as $$ select b.tenants from jobforge.bound_logins as b where b.login = session_user $$;
