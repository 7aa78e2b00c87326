-- Returns the tenant of this transaction: the setting app.tenant_id, or null without one. Row-level
-- security compares rows with it, and null denies. Functions of workers and operators treat null as
-- all tenants, so a login that is bound to tenants (bound_logins) never gets null: one tenant is
-- implied, and with several the setting must name one of them. The login is session_user, which
-- neither `set role` nor a function of another owner changes. Runs as the engine, because clients
-- cannot read bound_logins. PL/pgSQL, because that caches its plan between calls, and a SQL
-- function is parsed again. Raises JF001 and JF006, for bound logins only.
create or replace function jobforge.tenant() returns uuid
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_setting uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
    v_bound uuid[] := (select b.tenants from jobforge.bound_logins as b
                        where b.login = session_user);
begin
    if v_bound is null then
        return v_setting;
    end if;
    return jobforge_private.bound_tenant(v_bound, v_setting);
end $$;
