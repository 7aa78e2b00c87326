-- What this session remembers of a queue under a name, or null: a hint, never relied upon. A text
-- that this release cannot read, because another release wrote it, is discarded. A setting for
-- each queue, because a claim of one must not read and write the others'.
create or replace function jobforge.recall_places(p_name text, p_queue text)
returns jobforge.places
language plpgsql
as $$
begin
    return nullif(current_setting('jobforge.' || p_name || '_' || md5(p_queue), true), '')
        ::jobforge.places;
exception
    when data_exception then
        return null;
end $$;
