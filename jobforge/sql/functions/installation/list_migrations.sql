-- Servers and operators call this: returns the schema files that were applied to this database,
-- with the checksum of each. Raises nothing.
create or replace function jobforge.list_migrations()
returns table (name text, checksum text, applied_at timestamptz)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select m.name, m.checksum, m.applied_at from jobforge.migrations as m order by m.name
$$;
