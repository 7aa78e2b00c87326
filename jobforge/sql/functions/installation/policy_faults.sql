-- Returns the tables without forced row-level security, policies of access.sql that are missing or
-- differ, policies that it does not list, views with their owner's rights, and the statement that
-- corrects each. access.sql executes the statements; access_faults reports the faults. Reads only
-- the catalog.
create or replace function jobforge_private.policy_faults() returns table (fault text, remedy text)
language sql stable
as $$
    with tables as materialized (
        select c.oid, c.relname, format('%I.%I', 'jobforge', c.relname) as name, c.relrowsecurity,
               c.relforcerowsecurity
          from pg_catalog.pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
    ), actual as materialized (
        select t.oid as object, e.policyname::text as name,
               e.permissive = 'PERMISSIVE' as is_permissive, e.roles::text[] as roles,
               lower(e.cmd) as command, e.qual as reads, e.with_check as writes
          from pg_catalog.pg_policies as e
          join tables as t on t.relname = e.tablename
         where e.schemaname = 'jobforge'
    ), wanted as materialized (
        select * from jobforge_private.wanted_policies()
    )
    select format('Table %s does not force row-level security', t.name),
           format('alter table %s enable row level security, force row level security', t.name)
      from tables as t
     where not (t.relrowsecurity and t.relforcerowsecurity)
    union all
    select format(case when a.name is null then 'Table %s lacks policy %s'
                       else 'Table %s has a different policy %s' end, t.name, w.name),
           format('drop policy if exists %I on %s; create policy %I on %s for %s to %I '
                  'using (%s)%s',
                  w.name, t.name, w.name, t.name, w.command, w.role, w.reads,
                  ' with check (' || w.writes || ')')
      from wanted as w
      join tables as t on t.oid = w.object
      join pg_catalog.pg_roles as r on r.rolname = w.role
      left join actual as a on a.object = w.object and a.name = w.name
     where (a.is_permissive, a.roles, a.command, a.reads, a.writes)
           is distinct from (true, array[w.role], w.command, w.reads, w.writes)
    union all
    select format('Table %s has an unexpected policy %s', t.name, a.name),
           format('drop policy %I on %s', a.name, t.name)
      from actual as a
      join tables as t on t.oid = a.object
     where not exists (select from wanted as w where w.object = a.object and w.name = a.name)
    union all
    select format('View %s reads rows with its owner''s rights', c.relname),
           format('alter view jobforge.%I set (security_invoker = true)', c.relname)
      from pg_catalog.pg_class as c
     where c.relnamespace = 'jobforge'::regnamespace and c.relkind = 'v'
       and not coalesce('security_invoker=true' = any (c.reloptions), false)
$$;
