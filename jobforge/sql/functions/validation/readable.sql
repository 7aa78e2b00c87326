-- Returns the value if it can be returned as text, else a short object that says so. Functions
-- refuse values that are too long, but one from a superuser or a restore must not fail a statement
-- that returns it among others. Null for null.
create or replace function jobforge_private.readable(p_value jsonb) returns jsonb
language sql stable
as $$
    select case when jobforge_private.is_bounded(p_value, 16777216) is false
                then '{"$unreadable": "the value is too long as JSON text"}'
                else p_value end
$$;
