-- Operators and deployments call this: returns where owners, grants, policies and row-level
-- security differ from this release, roles that are missing, and functions without a search_path.
-- Returns no rows if all is correct. `jobforge db migrate --repair` corrects every fault. Takes no
-- locks. Raises nothing.
create or replace function jobforge.access_faults() returns table (fault text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select format('Role %s does not exist', w.role)
      from (select o.owner as role from jobforge_private.wanted_owners() as o
            union
            select g.role from jobforge_private.wanted_grants() as g) as w
     where not exists (select from pg_catalog.pg_roles as r where r.rolname = w.role)
    union all
    select f.fault from jobforge_private.owner_faults() as f
    union all
    select f.fault from jobforge_private.grant_faults() as f
    union all
    select f.fault from jobforge_private.policy_faults() as f
    union all
    select format('Function %s does not set search_path', p.oid::regprocedure)
      from pg_catalog.pg_proc as p
     where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[]) and p.prosecdef
       and not exists (select from unnest(p.proconfig) as s(setting)
                        where s.setting like 'search_path=%')
     order by 1;
end $$;
