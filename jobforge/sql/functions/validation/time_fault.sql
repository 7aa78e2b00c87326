-- Returns what is wrong with a time given as text, or null. Only ISO 8601 with an offset is
-- accepted; not words such as 'infinity' or 'tomorrow', nor times more than a year ahead unless
-- p_far, nor times that an offset moves out of the years 1 to 9999, which most languages cannot
-- represent.
create or replace function jobforge_private.time_fault(p_text text, p_far boolean) returns text
language plpgsql
as $$
begin
    if p_text !~ '^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)$' then
        return 'must be an ISO 8601 time with an offset';
    end if;
    if not p_text::timestamptz between '0001-01-02 00:00+00' and '9999-12-31 00:00+00' then
        return 'is not a valid time';
    end if;
    if p_text::timestamptz > jobforge_private.now() + interval '366 days' and not p_far then
        return 'is more than one year ahead; set far_future to allow it';
    end if;
    return null;
exception
    when data_exception then return 'is not a valid time';
end $$;
