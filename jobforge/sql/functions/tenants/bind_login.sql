-- Operators call this to bind a login to tenants, in place of its former ones: from the commit on,
-- it can act for no other tenant, also in open sessions. Refuses logins that could bypass the
-- binding (login_fault), and more than 1,000 tenants. Audited. Locks bound_logins against other
-- bindings and delete_tenant. Raises JF002, JF004 (no such login), JF006 (for a caller with a
-- tenant), JF014, and JF012 outside READ COMMITTED.
create or replace function jobforge.bind_login(p_login text, p_tenants uuid[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenants uuid[] := array(select distinct t from unnest(p_tenants) as t order by t);
    v_fault text := jobforge_private.login_fault(p_login, v_tenants);
begin
    perform jobforge_private.require_read_committed('bind_login');
    perform jobforge_private.require_no_tenant();
    if v_tenants = '{}' or cardinality(v_tenants) > 1000
       or array_position(v_tenants, null) is not null
       or 'ffffffff-ffff-ffff-ffff-ffffffffffff' = any (v_tenants) then
        perform jobforge_private.refuse('JF002', 'tenants must be a list of 1 to 1000 tenant IDs',
            '{"field": "tenants"}');
    elsif p_login is null or v_fault = 'does not exist' then
        perform jobforge_private.refuse('JF004', format('Login ''%s'' not found', p_login),
            jsonb_build_object('login', p_login));
    elsif v_fault is not null then
        perform jobforge_private.refuse('JF002',
            format('Login ''%s'' cannot be bound: it %s', p_login, v_fault),
            '{"field": "login"}', 'Bind a separate login in jobforge_client, jobforge_service or '
            || 'jobforge_worker.');
    end if;
    -- A tenant whose erasure has begun is refused, and one whose erasure begins later is removed.
    lock table jobforge.bound_logins in share row exclusive mode;
    perform jobforge_private.check_not_erased(t.id) from unnest(v_tenants) as t(id);
    insert into jobforge.bound_logins as b (login, tenants, bound_at, bound_by)
    values (p_login, v_tenants, jobforge_private.now(), jobforge_private.actor())
    on conflict (login) do update
       set tenants = excluded.tenants, bound_at = excluded.bound_at, bound_by = excluded.bound_by;
    perform jobforge_private.audit(null, 'login.bind', p_login,
        jsonb_build_object('tenants', to_jsonb(v_tenants)));
end $$;
