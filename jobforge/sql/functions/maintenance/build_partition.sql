-- Creates the partition of a history table for the day or month that begins on p_day, without
-- attaching it, so that the parent stays readable and writable. Its rights are those of access.sql.
-- Called by ensure_partitions.
create or replace function jobforge_private.build_partition(p_table text, p_day date) returns void
language plpgsql
as $$
declare
    v_name text := format('%s_%s', p_table, to_char(p_day, 'YYYYMMDD'));
begin
    execute format(
        'create table jobforge.%I (like jobforge.%I including defaults including constraints)',
        v_name, p_table);
    execute format('alter table jobforge.%I enable row level security', v_name);
    execute format('alter table jobforge.%I force row level security', v_name);
    if (select c.relreplident from pg_class as c
         where c.oid = ('jobforge.' || p_table)::regclass) = 'f' then
        execute format('alter table jobforge.%I replica identity full', v_name);
    end if;
    execute format(
        'create policy engine_all on jobforge.%I to jobforge_engine using (true) with check (true)',
        v_name);
    -- As in access.sql: an erasure deletes from each partition by its name.
    execute format(
        'grant select, insert, update, delete on jobforge.%I to jobforge_engine', v_name);
    execute format(
        'create policy backup_reads on jobforge.%I for select to jobforge_backup using (true)',
        v_name);
    execute format('grant select on jobforge.%I to jobforge_backup', v_name);
end $$;
