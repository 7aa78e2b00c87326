-- The bytes of the text that a stored value has where it is returned (readable), 0 for null.
-- Functions that return values of many rows count them with this, and stop at a limit: the size of
-- a jsonb does not limit its text.
create or replace function jobforge_private.text_bytes(p_value jsonb) returns integer
language sql stable
as $$
    select coalesce(octet_length(jobforge_private.readable(p_value)::text), 0)
$$;
