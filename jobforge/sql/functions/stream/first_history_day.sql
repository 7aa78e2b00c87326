-- Returns the day on which the history begins, because retention drops whole days. Null if there is
-- none.
create or replace function jobforge_private.first_history_day() returns date
language sql stable
as $$
    select min(to_date(right(c.relname, 8), 'YYYYMMDD'))
      from pg_catalog.pg_inherits as i
      join pg_catalog.pg_class as c on c.oid = i.inhrelid
     where i.inhparent = 'jobforge.attempts'::regclass and c.relname ~ '_\d{8}$'
$$;
