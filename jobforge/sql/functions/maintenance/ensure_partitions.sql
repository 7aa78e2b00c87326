-- Maintenance calls this: creates the partitions of the history tables from yesterday to p_days
-- ahead, one per day, or per month for the audit log, and returns how many. Moves rows from a
-- default partition to their own. No session can read a table that got a partition until the
-- transaction ends, so it waits for locks for 100 ms at most, because others would wait behind it;
-- a table that another transaction reads is left to the next call. Runs as the owner of the tables.
-- Returns 0 while another call runs. Raises JF002.
create or replace function jobforge.ensure_partitions(p_days integer default 7) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    v_today date := (jobforge_private.now() at time zone 'UTC')::date;
    v_table record;
    v_days date[];
    v_day date;
    v_created integer := 0;
begin
    perform jobforge_private.check_limit(p_days, 366);
    if not jobforge_private.try_lock('partitions') then
        return 0;
    end if;
    for v_table in select * from jobforge_private.history_tables() loop
        execute format(
            'select array_agg(d.day) from ('
            'select date_trunc($3, d)::date as day'
            '  from generate_series($1 - 1, $1 + $2, interval ''1 day'') as d '
            'union select date_trunc($3, %I at time zone ''UTC'')::date from jobforge.%I '
            'order by 1) as d '
            'where to_regclass(format(''jobforge.%s_%%s'', to_char(d.day, ''YYYYMMDD''))) is null',
            v_table.by_column, v_table.name || '_default', v_table.name)
          into v_days using v_today, p_days, v_table.span;
        continue when v_days is null;
        begin
            foreach v_day in array v_days loop
                perform jobforge_private.build_partition(v_table.name, v_day);
            end loop;
            perform jobforge_private.empty_default_partition(
                v_table.name, v_table.by_column, v_table.span, v_days);
            -- Rows may have been inserted since, and the lock prevents more before the partitions
            -- are attached.
            execute format('lock table jobforge.%I', v_table.name || '_default');
            perform jobforge_private.empty_default_partition(
                v_table.name, v_table.by_column, v_table.span, v_days);
            foreach v_day in array v_days loop
                execute format(
                    'alter table jobforge.%I attach partition jobforge.%I '
                    'for values from (%L) to (%L)',
                    v_table.name, format('%s_%s', v_table.name, to_char(v_day, 'YYYYMMDD')),
                    v_day || ' 00:00+00',
                    (v_day + ('1 ' || v_table.span)::interval)::date || ' 00:00+00');
            end loop;
            execute format('insert into jobforge.%I select * from jobforge.%I',
                           v_table.name, v_table.name || '_moved');
            execute format('drop table jobforge.%I', v_table.name || '_moved');
            v_created := v_created + cardinality(v_days);
        exception
            when lock_not_available or deadlock_detected then null;
        end;
    end loop;
    return v_created;
end $$;
