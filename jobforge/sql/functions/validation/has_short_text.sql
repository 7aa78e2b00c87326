-- Returns whether the text of a JSON value without long numbers has at most p_text bytes. A value
-- of more than 256 KiB must not have more than 400 decimals in any number, because the text is
-- built to be measured. Called by is_bounded.
create or replace function jobforge_private.has_short_text(p_value jsonb, p_text integer)
returns boolean
language sql stable
as $$
    select case
        when pg_column_size(p_value #> '{}') > 262144
         and exists (select from jsonb_path_query(p_value, 'strict $.** ? (@.abs() >= 0)') as n(x)
                      where scale(n.x::numeric) > 400)
        then false
        else octet_length(p_value::text) <= p_text
    end
$$;
