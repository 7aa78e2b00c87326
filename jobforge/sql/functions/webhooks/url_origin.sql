-- Returns scheme, host and port of a URL, so that two spellings of one origin are equal. A URL
-- whose origin clients could read in different ways is returned unchanged: it equals only itself.
-- Called by edit_connector_config and edit_webhook. Raises nothing.
create or replace function jobforge_private.url_origin(p_url text) returns text
language sql immutable
as $$
    select coalesce(
        (select lower(p.part[1] || '://' || p.part[2]) || ':' || coalesce(
                    p.part[3], case when lower(p.part[1]) = 'http' then '80' else '443' end)
           from regexp_match(p_url,
                '^([Hh][Tt][Tt][Pp][Ss]?)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])'
                '(?::([0-9]{1,5})?)?(?:[/?#][^\\]*)?$') as p(part)),
        p_url)
$$;
