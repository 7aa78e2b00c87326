-- Refuses a JSON value that is too long as text, and names the number that makes it so; the detail
-- has its path. Called where is_bounded is false. Raises JF007.
create or replace function jobforge_private.refuse_unbounded(
    p_field text,
    p_value jsonb,
    p_detail jsonb default '{}'
) returns void
language plpgsql
as $$
declare
    v_found record := jobforge_private.find_unbounded(p_value);
    v_detail jsonb := p_detail || jsonb_build_object('field', p_field, 'path', v_found.path);
begin
    if v_found.is_number then
        perform jobforge_private.refuse('JF007',
            format('%s contains a number that is too long, at %s', p_field, v_found.path), v_detail,
            'Send a number below 1e309 with at most 400 decimals, or send it as a string');
    end if;
    perform jobforge_private.refuse('JF007',
        format('%s is longer than 2 MiB as JSON text, at %s', p_field, v_found.path), v_detail,
        'Shorten the value, or store it elsewhere and send a reference to it');
end $$;
