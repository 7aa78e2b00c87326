"""All entries of the catalog that decide who may do what with the schema, for comparisons."""

from cluster import Connection

# Daily and monthly objects are compared by the first name of their kind.
_RIGHTS = r"""
with objects as (
    select 'schema' as kind, n.nspname::text as name, n.nspowner as owner,
           coalesce(n.nspacl, acldefault('n', n.nspowner)) as acl
      from pg_namespace as n
     where n.nspname in ('jobforge', 'jobforge_private')
    union all
    select case c.relkind when 'v' then 'view' when 'c' then 'type' else 'table' end,
           c.relname, c.relowner, coalesce(c.relacl, acldefault('r', c.relowner))
      from pg_class as c
     where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p', 'v', 'c')
    union all
    select 'function', p.oid::regprocedure::text, p.proowner,
           coalesce(p.proacl, acldefault('f', p.proowner))
      from pg_proc as p
     where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
)
select concat_ws(' ', 'owner', o.kind, o.name, o.owner::regrole) from objects as o
union all
select concat_ws(' ', 'grant', o.kind, o.name, nullif(a.grantee, 0)::regrole, a.privilege_type,
                 a.is_grantable)
  from objects as o cross join aclexplode(o.acl) as a
union all
select concat_ws(' ', 'column', c.attrelid::regclass, c.attname, c.attacl)
  from pg_attribute as c join pg_class as t on t.oid = c.attrelid
 where t.relnamespace = 'jobforge'::regnamespace and c.attacl is not null
union all
select concat_ws(' ', 'policy', p.tablename, p.policyname, p.permissive, p.roles, p.cmd, p.qual,
                 p.with_check)
  from pg_policies as p where p.schemaname = 'jobforge'
union all
select concat_ws(' ', 'row security', c.relname, c.relrowsecurity, c.relforcerowsecurity)
  from pg_class as c
 where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
union all
select concat_ws(' ', 'default', d.defaclrole::regrole, d.defaclnamespace, d.defaclobjtype,
                 d.defaclacl)
  from pg_default_acl as d where d.defaclrole::regrole::text like 'jobforge%'
union all
select concat_ws(' ', 'definer', p.oid::regprocedure, p.prosecdef, p.proconfig)
  from pg_proc as p
 where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
union all
select concat_ws(' ', 'view', c.relname, c.reloptions)
  from pg_class as c where c.relnamespace = 'jobforge'::regnamespace and c.relkind = 'v'
union all
select concat_ws(' ', 'member', m.member::regrole, m.roleid::regrole)
  from pg_auth_members as m
 where m.member::regrole::text like 'jobforge%' and m.roleid::regrole::text like 'jobforge%'
union all
select concat_ws(' ', 'role', r.rolname, r.rolsuper, r.rolbypassrls, r.rolcanlogin)
  from pg_roles as r where r.rolname like 'jobforge%'
"""


def rights(conn: Connection) -> set[str]:
    """Return owners, grants, policies, row security, default privileges and roles: one line
    each."""
    return {line for row in conn.execute(_RIGHTS) for line in row.values()}
