-- Returns the privileges of access.sql that are missing, privileges of any role that it does not
-- list, and the statement that corrects each. An owner's own privileges do not count. access.sql
-- executes the statements; access_faults reports the faults. Reads only the catalog.
create or replace function jobforge_private.grant_faults() returns table (fault text, remedy text)
language sql stable
as $$
    with objects as materialized (
        select 'schema' as kind, n.oid, n.nspname::text as name, n.nspowner as owner,
               n.nspacl as acl
          from pg_catalog.pg_namespace as n
         where n.nspname in ('jobforge', 'jobforge_private')
        union all
        select case c.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end,
               c.oid, format('%I.%I', 'jobforge', c.relname), c.relowner, c.relacl
          from pg_catalog.pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
        union all
        select 'function', p.oid, p.oid::regprocedure::text, p.proowner,
               coalesce(p.proacl, acldefault('f', p.proowner))
          from pg_catalog.pg_proc as p
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
    ), actual as materialized (
        select o.kind, o.oid, a.grantee, a.privilege_type as privilege, a.is_grantable
          from objects as o
         cross join aclexplode(o.acl) as a
         where a.grantee <> o.owner
    ), wanted as materialized (
        select w.kind, w.object as oid, r.oid as grantee, w.privilege
          from jobforge_private.wanted_grants() as w
          join pg_catalog.pg_roles as r on r.rolname = w.role
    ), differing as (
        select coalesce(w.kind, a.kind) as kind, coalesce(w.oid, a.oid) as oid,
               coalesce(w.grantee, a.grantee) as grantee, w.privilege as lacks,
               a.privilege as excess
          from wanted as w
          full join actual as a using (kind, oid, grantee, privilege)
         where w.kind is null or a.kind is null
    )
    select case when d.lacks is not null
                then format('%s lacks %s on %s %s', n.name, d.lacks, o.kind, o.name)
                else format('%s has %s on %s %s', n.name, d.excess, o.kind, o.name) end,
           case when d.lacks is not null
                then format('grant %s on %s %s to %s', d.lacks,
                            replace(o.kind, 'view', 'table'), o.name, n.name)
                else format('revoke %s on %s %s from %s cascade', d.excess,
                            replace(o.kind, 'view', 'table'), o.name, n.name) end
      from differing as d
      join objects as o using (kind, oid)
     cross join lateral (select case d.grantee when 0 then 'public'
                                else quote_ident(pg_get_userbyid(d.grantee)) end as name) as n
    union all
    select format('%s can grant %s on %s %s to other roles', n.name, a.privilege, o.kind, o.name),
           format('revoke grant option for %s on %s %s from %s cascade', a.privilege,
                  replace(o.kind, 'view', 'table'), o.name, n.name)
      from actual as a
      join wanted as w using (kind, oid, grantee, privilege)
      join objects as o using (kind, oid)
     cross join lateral (select quote_ident(pg_get_userbyid(a.grantee)) as name) as n
     where a.is_grantable
    union all
    select format('%s has %s on column %I of %s', n.name, a.privilege_type, c.attname, o.name),
           format('revoke %s (%I) on table %s from %s cascade', a.privilege_type, c.attname,
                  o.name, n.name)
      from objects as o
      join pg_catalog.pg_attribute as c on c.attrelid = o.oid and c.attacl is not null
     cross join aclexplode(c.attacl) as a
     cross join lateral (select case a.grantee when 0 then 'public'
                                else quote_ident(pg_get_userbyid(a.grantee)) end as name) as n
     where o.kind in ('table', 'view')
$$;
