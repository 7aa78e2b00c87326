-- Returns whether a JSON value has a number of 1e309 or more, or with more than 400 decimals.
-- Slower than is_bounded. Called by check_bounded and find_unbounded.
create or replace function jobforge_private.has_long_number(p_value jsonb) returns boolean
language sql stable
as $$
    select exists (
        select from jsonb_path_query(p_value, 'strict $.** ? (@.abs() >= 0)') as n(x)
         where n.x::numeric >= 1e309 or n.x::numeric <= -1e309 or scale(n.x::numeric) > 400)
$$;
