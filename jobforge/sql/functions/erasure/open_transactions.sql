-- Returns the transactions that are open in this database, including prepared ones, except the
-- caller's. A transaction that began before a change was committed may act as if the change were
-- not made, so step_erasure waits until these have ended. Reads locks, which every role may see.
-- Called by step_erasure.
create or replace function jobforge_private.open_transactions() returns text[]
language sql volatile
as $$
    select array(
        select l.virtualtransaction
          from pg_locks as l
          join pg_stat_activity as a on a.pid = l.pid
         where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock'
           and a.datid = (select d.oid from pg_database as d where d.datname = current_database())
           -- Not autovacuum, which writes no rows and may run for long.
           and a.usesysid is not null
           and l.pid <> pg_backend_pid()
        union all
        select p.transaction::text from pg_prepared_xacts as p
         where p.database = current_database())
$$;
