-- Refuses a string that is empty, longer than p_most, or has control characters. Raises JF002.
create or replace function jobforge_private.check_name(p_field text, p_name text, p_most integer)
returns void
language plpgsql
as $$
begin
    if p_name is null or length(p_name) not between 1 and p_most or p_name ~ '[\x01-\x1f\x7f]' then
        perform jobforge_private.refuse('JF002',
            format('%s must have 1 to %s characters and no control characters',
                   p_field, p_most),
            jsonb_build_object('field', p_field));
    end if;
end $$;
