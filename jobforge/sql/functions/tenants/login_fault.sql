-- Returns why a login cannot be confined to these tenants, or null. Called by bind_login, and by
-- list_bound_logins, because roles may be granted later.
create or replace function jobforge_private.login_fault(p_login name, p_tenants uuid[]) returns text
language sql stable
as $$
    select case
        when r.oid is null then 'does not exist'
        when not r.rolcanlogin then 'cannot log in'
        when r.rolsuper then 'is a superuser'
        when r.rolbypassrls then 'bypasses row-level security'
        -- `member`, because a member that does not inherit can still `set role`.
        when w.name is not null then 'is a member of ' || w.name || ', which acts for all tenants'
        when cardinality(p_tenants) > 1 and pg_has_role(r.oid, 'jobforge_worker', 'member')
        then 'is a member of jobforge_worker: a worker can be bound to one tenant only' end
      from (select p_login as name) as l
      left join pg_roles as r on r.rolname = l.name
      left join lateral (
           select o.name
             from unnest('{jobforge_owner,jobforge_engine,jobforge_admin,jobforge_server,
                           jobforge_backup}'::name[]) with ordinality as o(name, place)
            where pg_has_role(r.oid, o.name, 'member')
            order by o.place limit 1) as w on true
$$;
