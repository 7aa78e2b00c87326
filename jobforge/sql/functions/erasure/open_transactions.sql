-- The transactions that are open in this database now, prepared ones too, but for the caller's:
-- what began before something else was committed may act as if it were not, and this is how to know
-- when the last of them has ended. By their locks, which every role may see. Called by
-- step_erasure.
create or replace function jobforge_private.open_transactions() returns text[]
language sql volatile
as $$
    select array(
        select l.virtualtransaction
          from pg_locks as l
          join pg_stat_activity as a on a.pid = l.pid
         where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock'
           and a.datid = (select d.oid from pg_database as d where d.datname = current_database())
           -- Not autovacuum, which writes no rows and can be long at it.
           and a.usesysid is not null
           and l.pid <> pg_backend_pid()
        union all
        select p.transaction::text from pg_prepared_xacts as p
         where p.database = current_database())
$$;
