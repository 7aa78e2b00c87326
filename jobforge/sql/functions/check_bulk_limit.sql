-- Refuses a bulk action on fewer than 1 or more than 10,000 jobs at a time (JF002): its locks would hold up workers.
create or replace function jobforge.check_bulk_limit(p_limit integer) returns void
language plpgsql
as $$
begin
    if p_limit is null or p_limit not between 1 and 10000 then
        perform jobforge.refuse('JF002', 'limit must lie between 1 and 10000', '{"field": "limit"}');
    end if;
end $$;
