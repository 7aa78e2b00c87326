-- Refuses a limit below 1 or above p_most. Raises JF002.
create or replace function jobforge_private.check_limit(p_limit integer, p_most integer)
returns void
language plpgsql
as $$
begin
    if p_limit is null or p_limit not between 1 and p_most then
        perform jobforge_private.refuse('JF002', format('limit must be between 1 and %s', p_most),
            '{"field": "limit"}');
    end if;
end $$;
