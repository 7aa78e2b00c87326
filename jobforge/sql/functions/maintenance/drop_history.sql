-- Drops the partitions that ended at least p_days before today (p_audit_days for the audit log),
-- and returns their names. No session can settle a job until the transaction ends, so maintenance
-- calls apply_retention for the partitions alone, and this waits at most 100 ms for a lock: others
-- would wait behind it. Returns null, without dropping anything, while another transaction reads
-- the history; the next call tries again. Called by apply_retention.
create or replace function jobforge_private.drop_history(
    p_now timestamptz,
    p_days integer,
    p_audit_days integer
) returns text[]
language plpgsql
set lock_timeout = '100ms'
as $$
declare
    v_partition text;
    v_dropped text[] := '{}';
begin
    for v_partition in
        select c.relname
          from jobforge_private.history_tables() as t
          join pg_inherits as i on i.inhparent = ('jobforge.' || t.name)::regclass
          join pg_class as c on c.oid = i.inhrelid
         where c.relname ~ '_\d{8}$'
           and (to_date(right(c.relname, 8), 'YYYYMMDD') + ('1 ' || t.span)::interval)::date
               + case t.name when 'audit_log' then p_audit_days else p_days end
               <= (p_now at time zone 'UTC')::date
         order by c.relname
    loop
        execute format('drop table jobforge.%I', v_partition);
        v_dropped := v_dropped || v_partition;
    end loop;
    return v_dropped;
exception
    when lock_not_available or deadlock_detected then return null;
end $$;
