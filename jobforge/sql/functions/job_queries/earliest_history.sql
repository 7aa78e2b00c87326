-- A time before which nothing about a job can be in the history, by its id: that of the UUIDv7,
-- less a day for clocks that were set back. -infinity for ids of other versions. Statements that
-- compare it with the column by which a table is partitioned lock and read fewer partitions.
create or replace function jobforge_private.earliest_history(p_job_id uuid) returns timestamptz
language sql immutable
as $$
    select case when substr(p_job_id::text, 15, 1) = '7'
                then to_timestamp(('x' || translate(left(p_job_id::text, 13), '-', ''))
                                  ::bit(48)::bigint / 1000.0) - interval '1 day'
                else '-infinity' end
$$;
