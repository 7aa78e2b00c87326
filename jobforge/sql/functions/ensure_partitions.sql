-- Maintenance calls this: creates the daily partitions of the history tables from yesterday to
-- p_days ahead and answers how many. Rows that fell into a default partition meanwhile move to
-- their day. Runs as the owner of the tables. One at a time; a second caller answers 0. Raises
-- JF002.
create or replace function jobforge.ensure_partitions(p_days integer default 7) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_today date := (jobforge.now() at time zone 'UTC')::date;
    v_table record;
    v_day date;
    v_name text;
    v_created integer := 0;
begin
    perform jobforge.check_limit(p_days, 366);
    if not pg_try_advisory_xact_lock(hashtextextended('jobforge:partitions', 0)) then
        return 0;
    end if;
    for v_table in select * from jobforge.history_tables() loop
        for v_day in execute format(
            'select d::date from generate_series($1 - 1, $1 + $2, interval ''1 day'') as d '
            'union select distinct (%I at time zone ''UTC'')::date from jobforge.%I order by 1',
            v_table.by_column, v_table.name || '_default') using v_today, p_days
        loop
            v_name := format('%s_%s', v_table.name, to_char(v_day, 'YYYYMMDD'));
            continue when to_regclass('jobforge.' || v_name) is not null;
            -- Built aside and attached: that leaves the parent readable and writable.
            execute format(
                'create table jobforge.%I (like jobforge.%I including defaults including constraints)',
                v_name, v_table.name);
            execute format('alter table jobforge.%I enable row level security', v_name);
            execute format('alter table jobforge.%I force row level security', v_name);
            execute format(
                'create policy engine_all on jobforge.%I to jobforge_engine using (true) with check (true)',
                v_name);
            execute format(
                'with moved as (delete from jobforge.%I where %I >= %L and %I < %L returning *) '
                'insert into jobforge.%I select * from moved',
                v_table.name || '_default', v_table.by_column, v_day || ' 00:00+00',
                v_table.by_column, v_day + 1 || ' 00:00+00', v_name);
            execute format(
                'alter table jobforge.%I attach partition jobforge.%I for values from (%L) to (%L)',
                v_table.name, v_name, v_day || ' 00:00+00', v_day + 1 || ' 00:00+00');
            v_created := v_created + 1;
        end loop;
    end loop;
    return v_created;
end $$;
