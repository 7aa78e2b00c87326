-- The value if it can be returned as text, else a short object that says so. Functions refuse
-- values that are too long; one from a superuser or from a restore must not fail a statement that
-- returns it among others. Null for null. Lists give each value its share of 64 MiB as p_text: at
-- their largest limits that is still as long as a plain value can be.
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
