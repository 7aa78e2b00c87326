-- Returns a time before which the history has nothing about a job: the time in its UUIDv7, less a
-- day for clocks that were set back; -infinity for other UUIDs. Statements that compare it with the
-- partition key lock and read fewer partitions.
create or replace function jobforge_private.earliest_history(p_job_id uuid) returns timestamptz
language sql immutable
as $$
    select case when substr(p_job_id::text, 15, 1) = '7'
                then to_timestamp(('x' || translate(left(p_job_id::text, 13), '-', ''))
                                  ::bit(48)::bigint / 1000.0) - interval '1 day'
                else '-infinity' end
$$;
