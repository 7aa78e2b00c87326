-- Returns the definition that a name refers to: key, key@version, or a key with p_version. Without
-- a version: the newest active version, or the newest if none is active.
create or replace function jobforge_private.find_definition(
    p_name text,
    p_version integer default null
) returns setof jobforge.definitions
language sql stable
as $$
    select d.*
      from jobforge.definitions as d
     where d.key = split_part(p_name, '@', 1)
       and d.version = coalesce(
               p_version, nullif(split_part(p_name, '@', 2), '')::integer, d.version)
     order by d.is_active desc, d.version desc
     limit 1
$$;
