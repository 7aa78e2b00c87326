-- Every migration runs this after roles.sql, as the migrating user. Creates the two schemas and the
-- list of applied files. `jobforge` has the tables, the types and the functions that a role may
-- execute. `jobforge_private` has the functions that only other functions call; no login role may
-- use it. Safe to run again. Migrations run as jobforge_owner, so objects that a restore left with
-- another owner, and tables without the policy that opens their rows, are corrected here first.
-- All other rights follow in access.sql.
do $$
declare
    v_object record;
begin
    if not exists (select from pg_catalog.pg_namespace where nspname = 'jobforge') then
        create schema jobforge authorization jobforge_owner;
    end if;
    if not exists (select from pg_catalog.pg_namespace where nspname = 'jobforge_private') then
        create schema jobforge_private authorization jobforge_owner;
    end if;
    if pg_catalog.to_regclass('jobforge.migrations') is null then
        -- One row per file; the row `revision` has the revision of all of them as its checksum.
        create table jobforge.migrations (
            name text primary key,
            checksum text not null,
            applied_at timestamptz not null default clock_timestamp()
        );
    end if;

    for v_object in
        select 'schema' as kind, n.nspname as name, 'jobforge_owner' as owner
          from pg_catalog.pg_namespace as n
         where n.nspname in ('jobforge', 'jobforge_private')
           and n.nspowner <> 'jobforge_owner'::regrole
        union all
        select case c.relkind when 'v' then 'view' when 'c' then 'type' else 'table' end,
               pg_catalog.format('jobforge.%I', c.relname), 'jobforge_owner'
          from pg_catalog.pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p', 'v', 'c')
           and c.relowner <> 'jobforge_owner'::regrole
    loop
        execute pg_catalog.format('alter %s %s owner to %I',
                                  v_object.kind, v_object.name, v_object.owner);
    end loop;

    grant usage, create on schema jobforge, jobforge_private to jobforge_engine;
    for v_object in
        select p.oid::regprocedure as name
          from pg_catalog.pg_proc as p
         where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])
           and p.proowner not in ('jobforge_owner'::regrole, 'jobforge_engine'::regrole)
    loop
        execute pg_catalog.format('alter routine %s owner to jobforge_engine', v_object.name);
    end loop;

    for v_object in
        select c.oid::regclass as name
          from pg_catalog.pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
           and c.relrowsecurity
           and not exists (select from pg_catalog.pg_policy as p
                            where p.polrelid = c.oid and p.polname = 'engine_all')
    loop
        execute pg_catalog.format(
            'create policy engine_all on %s to jobforge_engine using (true) with check (true)',
            v_object.name);
    end loop;
end $$;
