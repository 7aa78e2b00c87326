-- Returns whether an event name matches the pattern of a trigger: the name itself, a prefix such as
-- `order.*`, or `*`. Python's trigger code has the same rule.
create or replace function jobforge_private.matches_event(p_pattern text, p_name text)
returns boolean
language sql immutable
as $$
    select p_pattern in (p_name, '*')
        or right(p_pattern, 2) = '.*' and starts_with(p_name, left(p_pattern, -1))
$$;
