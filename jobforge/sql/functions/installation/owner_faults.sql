-- Returns the objects of the schemas with another owner than access.sql names, default privileges
-- that let every role execute new functions, and the statement that corrects each. access.sql
-- executes the statements; access_faults reports the faults. Reads only the catalog.
create or replace function jobforge_private.owner_faults() returns table (fault text, remedy text)
language sql stable
as $$
    select format('%s %s is owned by %s instead of %s', a.kind, a.name, a.owner, w.owner),
           format('alter %s %s owner to %I', a.kind, a.name, w.owner)
      from jobforge_private.wanted_owners() as w
      join (select 'schema' as kind, n.oid, n.nspname::text as name,
                   pg_get_userbyid(n.nspowner)::text as owner
              from pg_catalog.pg_namespace as n
            union all
            select case c.relkind when 'v' then 'view' when 'c' then 'type' when 'S' then 'sequence'
                                  else 'table' end,
                   c.oid, format('%I.%I', c.relnamespace::regnamespace::text, c.relname),
                   pg_get_userbyid(c.relowner)::text
              from pg_catalog.pg_class as c
            union all
            select 'function', p.oid, p.oid::regprocedure::text, pg_get_userbyid(p.proowner)::text
              from pg_catalog.pg_proc as p
             where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           ) as a(kind, oid, name, owner)
           on a.kind = w.kind and a.oid = w.object
     where a.owner <> w.owner
    union all
    select format('New functions of %s are executable by every role', r.rolname),
           format('alter default privileges for role %I revoke execute on functions from public',
                  r.rolname)
      from pg_catalog.pg_roles as r
     where r.rolname in ('jobforge_owner', 'jobforge_engine')
       and not exists (
               select from pg_catalog.pg_default_acl as d
                where d.defaclrole = r.oid and d.defaclnamespace = 0 and d.defaclobjtype = 'f'
                  and not exists (select from aclexplode(d.defaclacl) as a where a.grantee = 0))
$$;
