-- Returns what remains of an error when its job is erased: its type, which is a name from code.
create or replace function jobforge_private.redact_error(p_error jsonb) returns jsonb
language sql immutable
as $$
    select jsonb_build_object('type', p_error -> 'type', 'message', 'erased')
     where p_error is not null
$$;
