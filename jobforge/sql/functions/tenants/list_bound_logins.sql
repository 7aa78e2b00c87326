-- Operators call this for the logins that are bound to tenants, by name: the IDs of the tenants,
-- their slugs (the ID of a tenant without one), and `fault`: why the binding does not confine the
-- login, or null. Raises JF006 for a caller with a tenant.
create or replace function jobforge.list_bound_logins()
returns table (
    login text, tenants uuid[], slugs text[], bound_at timestamptz, bound_by text, fault text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform jobforge_private.require_no_tenant();
    return query
    select b.login::text, b.tenants,
           array(select coalesce(t.slug, u.id::text)
                   from unnest(b.tenants) as u(id)
                   left join jobforge.tenants as t on t.id = u.id
                  order by 1),
           b.bound_at, b.bound_by, jobforge_private.login_fault(b.login, b.tenants)
      from jobforge.bound_logins as b
     order by b.login;
end $$;
