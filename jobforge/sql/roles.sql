-- Creates the roles. Every migration runs this file first, as the migrating user; safe to run
-- again. The first run in a cluster needs CREATEROLE, but not superuser. Roles are shared by all
-- databases of a cluster, so later databases only need membership in jobforge_owner. A logical
-- backup has no roles: `jobforge db migrate --roles-only` runs this file alone, before a restore.
--
--   jobforge_owner    owns the schemas, tables and partitions; no login uses it
--   jobforge_engine   owns the functions; its policy gives only them access to all rows
--   jobforge_client   an application: EXECUTE on the functions of a tenant, SELECT under RLS
--   jobforge_worker   EXECUTE on the functions of workers, such as claim_jobs; no access to tables
--   jobforge_admin    an operator: EXECUTE on the functions of all roles above, SELECT on all rows
--   jobforge_service  a trusted back end that may name a tenant by argument alone
--   jobforge_server   the HTTP server: EXECUTE on all public functions
--   jobforge_backup   pg_dump: SELECT on all rows of all tables and partitions
do $$
declare
    v_role text;
begin
    foreach v_role in array array['jobforge_owner', 'jobforge_engine', 'jobforge_client',
                                  'jobforge_worker', 'jobforge_admin', 'jobforge_service',
                                  'jobforge_server', 'jobforge_backup'] loop
        begin
            if not exists (select from pg_catalog.pg_roles where rolname = v_role) then
                execute pg_catalog.format('create role %I nologin', v_role);
            end if;
        exception
            -- Another database of this cluster is being migrated at the same time.
            when duplicate_object or unique_violation then null;
        end;
    end loop;

    if not pg_catalog.pg_has_role(current_user, 'jobforge_owner', 'usage') then
        execute pg_catalog.format('grant jobforge_owner to %I', current_user);
    end if;
    -- The owner is a member of the engine, so that partition maintenance sees the rows that it
    -- moves.
    if not pg_catalog.pg_has_role('jobforge_owner', 'jobforge_engine', 'usage') then
        grant jobforge_engine to jobforge_owner;
    end if;
exception
    when insufficient_privilege then
        raise exception using
            errcode = '42501',
            message = pg_catalog.format('%I cannot create or grant the jobforge roles',
                                        current_user),
            hint = 'Run the migration as a user with CREATEROLE, or have one run: '
                || 'grant jobforge_owner to ' || pg_catalog.quote_ident(current_user);
end $$;
