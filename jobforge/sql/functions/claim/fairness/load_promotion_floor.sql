-- Returns the time from which this session searches for due jobs, and until when it does so; null
-- if the session stored none, or a value that this release cannot read. Called by promote_jobs.
create or replace function jobforge_private.load_promotion_floor() returns timestamptz[]
language plpgsql
as $$
begin
    return nullif(current_setting('jobforge.promoted', true), '')::timestamptz[];
exception
    when data_exception or program_limit_exceeded then
        return null;
end $$;
