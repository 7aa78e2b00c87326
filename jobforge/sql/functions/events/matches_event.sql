-- Whether an event's name fits the pattern of a trigger: that name, the start of it as in
-- `order.*`, or `*`. As matching.py has it.
create or replace function jobforge_private.matches_event(p_pattern text, p_name text)
returns boolean
language sql immutable
as $$
    select p_pattern in (p_name, '*')
        or right(p_pattern, 2) = '.*' and starts_with(p_name, left(p_pattern, -1))
$$;
