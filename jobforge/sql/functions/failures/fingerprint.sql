-- Returns the fingerprint of an error: a hash of definition, error type, and the message without
-- numbers, quoted values and hexadecimal IDs. Null without an error. Called by the settle
-- functions.
create or replace function jobforge_private.fingerprint(p_definition text, p_error jsonb)
returns text
language sql immutable
as $$
    select case when p_error is not null then left(md5(concat_ws(
        E'\n', p_definition, p_error ->> 'type',
        regexp_replace(regexp_replace(left(p_error ->> 'message', 1000),
            '0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}(-[0-9a-fA-F]{4,}){0,4}|\d+', '#', 'g'),
            '''[^'']*''|"[^"]*"', '?', 'g'))), 16) end
$$;
