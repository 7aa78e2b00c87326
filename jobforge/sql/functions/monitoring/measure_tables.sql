-- Returns sizes and row counts, from Postgres's statistics, of the tables that turn over, and the
-- state of the history partitions. `inserted` counts rows since the statistics were reset,
-- including rows of transactions that were rolled back. Called by read_gauges.
create or replace function jobforge_private.measure_tables()
returns table (gauge text, table_name text, value double precision)
language sql stable
as $$
    select m.gauge, c.relname::text, m.value::float8
      from pg_catalog.pg_class as c
     cross join lateral (values
        ('table_bytes', pg_catalog.pg_total_relation_size(c.oid)),
        ('live_rows', pg_catalog.pg_stat_get_live_tuples(c.oid)),
        ('dead_rows', pg_catalog.pg_stat_get_dead_tuples(c.oid)),
        ('inserted', pg_catalog.pg_stat_get_tuples_inserted(c.oid))) as m(gauge, value)
     where c.oid in ('jobforge.jobs'::regclass, 'jobforge.outbox'::regclass,
                     'jobforge.idempotency_keys'::regclass)
    union all
    select m.gauge, p.relname::text, m.value::float8
      from (select i.inhparent,
                   max((to_date(right(c.relname, 8), 'YYYYMMDD')
                        + ('1 ' || h.span)::interval)::date - 1)
                       filter (where c.relname ~ '_[0-9]{8}$') as last_day,
                   -- An emptied partition keeps its pages until it is vacuumed.
                   bool_or(c.relname ~ '_default$'
                           and pg_catalog.pg_relation_size(c.oid) > 0
                           and (pg_catalog.pg_stat_get_live_tuples(c.oid) > 0
                                or pg_catalog.pg_stat_get_tuples_deleted(c.oid) = 0))
                       as has_default_rows,
                   sum(pg_catalog.pg_total_relation_size(c.oid)) as bytes
              from jobforge_private.history_tables() as h
              join pg_catalog.pg_inherits as i
                on i.inhparent = format('jobforge.%I', h.name)::regclass
              join pg_catalog.pg_class as c on c.oid = i.inhrelid and c.relkind = 'r'
             group by i.inhparent) as h
      join pg_catalog.pg_class as p on p.oid = h.inhparent
     cross join lateral (values
        ('table_bytes', h.bytes::float8),
        ('days_ahead',
         coalesce(h.last_day - (jobforge_private.now() at time zone 'UTC')::date, 0)::float8),
        ('default_rows', h.has_default_rows::integer::float8)) as m(gauge, value)
$$;
