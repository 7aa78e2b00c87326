-- Drops the partitions that end p_days or more before today, those of the audit log p_audit_days or
-- more, and returns their names. Until the transaction ends no session can settle a job. So
-- maintenance calls apply_retention for the partitions alone, and this waits at most 100 ms for a
-- lock: others would wait behind it. While another transaction reads the history, nothing is
-- dropped (null), and the next call tries again.
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
