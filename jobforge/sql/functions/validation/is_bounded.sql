-- Returns whether a JSON value is short as text: it has no number of 1e309 or more, and its text
-- has at most p_text bytes. The size of a jsonb does not limit its text: 1e131071 takes 12 bytes,
-- and its text 131,072. Null for null. Called by every function that stores or returns a caller's
-- JSON.
create or replace function jobforge_private.is_bounded(
    p_value jsonb,
    p_text integer default 2097152
) returns boolean
language sql stable
as $$
    -- Zero with 16,383 decimals takes 12 bytes, so a value of p_text / 1400 bytes has no long text.
    -- `#> '{}'`: see docs/query-plans.md, "Sizes of JSON values".
    select not jsonb_path_exists(p_value, 'strict $.** ? (@.abs() >= 1e309)')
       and (pg_column_size(p_value #> '{}') <= p_text / 1400
            or jobforge_private.has_short_text(p_value, p_text))
$$;
