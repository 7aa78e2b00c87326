-- Moves the rows of some days or months from a table's default partition to the unlogged table
-- <name>_moved, which it creates if needed. ensure_partitions inserts them into the table again
-- once it has partitions for them. Not directly into a partition that is not attached yet: for a
-- publication, that is another table, which no subscriber has.
create or replace function jobforge_private.empty_default_partition(
    p_table text,
    p_by_column text,
    p_span text,
    p_days date[]
) returns void
language plpgsql
set client_min_messages = warning
as $$
begin
    execute format('create unlogged table if not exists jobforge.%I (like jobforge.%I)',
                   p_table || '_moved', p_table);
    execute format(
        'with moved as (delete from jobforge.%I '
        'where date_trunc($2, %I at time zone ''UTC'')::date = any ($1) returning *) '
        'insert into jobforge.%I select * from moved',
        p_table || '_default', p_by_column, p_table || '_moved')
      using p_days, p_span;
end $$;
