-- Returns the time of the newest attempt or event with a transaction ID that this cluster has not
-- assigned yet, or -infinity. Reads days from the last one backwards until one has such a row.
-- Called by roll_up_statistics once after a restore.
create or replace function jobforge_private.newest_history() returns timestamptz
language plpgsql stable
as $$
declare
    v_next xid8 := pg_snapshot_xmax(pg_current_snapshot());
    v_newest timestamptz;
    v_at timestamptz;
    v_days integer;
begin
    foreach v_days in array array[1, 7, 30, 100000] loop
        v_at := jobforge_private.now() - make_interval(days => v_days);
        select max(h.at) into v_newest
          from (select max(a.ended_at) as at from jobforge.all_attempts as a
                 where a.ended_at >= v_at and a.txid >= v_next
                union all
                select max(e.at) from jobforge.job_events as e
                 where e.at >= v_at and e.txid >= v_next) as h;
        exit when v_newest is not null;
    end loop;
    return coalesce(v_newest, '-infinity');
end $$;
