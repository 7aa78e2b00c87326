-- Refuses a period that is infinite, ends before it begins, or is longer than a year. Raises JF002.
create or replace function jobforge_private.check_period(p_since timestamptz, p_until timestamptz)
returns void
language plpgsql
as $$
begin
    if not isfinite(p_since) or not isfinite(p_until)
       or p_since > p_until or p_until - p_since > interval '366 days' then
        perform jobforge_private.refuse('JF002',
            'since must be before until, and at most one year before',
            '{"field": "since"}');
    end if;
end $$;
