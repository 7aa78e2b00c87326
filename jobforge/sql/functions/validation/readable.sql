-- Returns the value if it can be returned as text, else a short object that says so. Functions
-- refuse values that are too long, but one from a superuser or a restore must not fail a statement
-- that returns it among others. Null for null. A list passes each value's share of 64 MiB as
-- p_text: even at the largest limit of a list, the share fits the longest plain value.
create or replace function jobforge_private.readable(
    p_value jsonb,
    p_text integer default 16777216
) returns jsonb
language sql stable
as $$
    select case when jobforge_private.is_bounded(p_value, p_text) is false
                then '{"$unreadable": "the value is too long as JSON text"}'
                else p_value end
$$;
