-- Where this session starts to look for due jobs, and until when it does so; null when it remembers
-- nothing, or a text that this release cannot read. Called by promote_jobs.
create or replace function jobforge_private.recall_promoted() returns timestamptz[]
language plpgsql
as $$
begin
    return nullif(current_setting('jobforge.promoted', true), '')::timestamptz[];
exception
    when data_exception or program_limit_exceeded then
        return null;
end $$;
