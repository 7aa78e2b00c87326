-- Moves the rows of a day from the default partition to the table that was built for it. Called by
-- ensure_partitions.
create or replace function jobforge.fill_partition(p_table text, p_by_column text, p_day date)
returns void
language plpgsql
as $$
begin
    execute format(
        'with moved as (delete from jobforge.%I where %I >= %L and %I < %L returning *) '
        'insert into jobforge.%I select * from moved',
        p_table || '_default', p_by_column, p_day || ' 00:00+00',
        p_by_column, p_day + 1 || ' 00:00+00',
        format('%s_%s', p_table, to_char(p_day, 'YYYYMMDD')));
end $$;
