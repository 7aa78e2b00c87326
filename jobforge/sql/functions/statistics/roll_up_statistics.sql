-- Maintenance calls this: adds ended attempts to the statistics of their minutes, each once, and
-- returns how many. Reads attempts in the order of their transactions, and only those older than
-- every open transaction, so that no attempt can appear before the position later; whole
-- transactions, p_limit attempts and the rest of the last transaction. The position advances in the
-- same transaction. A position beyond every transaction comes from another cluster, from which this
-- database was restored: attempts beyond it are added, then reading restarts, with the attempts
-- that ended after the restored ones. Returns 0 while another call runs. Raises JF002.
create or replace function jobforge.roll_up_statistics(p_limit integer default 50000)
returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_from xid8;
    v_end xid8;
    v_last xid8;
    v_since timestamptz;
    v_is_foreign boolean;
    v_read bigint;
begin
    perform jobforge_private.check_limit(p_limit, 1000000);
    if not jobforge_private.try_lock('statistics') then
        return 0;
    end if;
    select p.txid, p.restored_until, p.txid > pg_snapshot_xmax(pg_current_snapshot())
      into v_from, v_since, v_is_foreign
      from jobforge.statistics_position as p;
    v_end := case when v_is_foreign then '18446744073709551615'::xid8
                  else pg_snapshot_xmin(pg_current_snapshot()) end;
    select a.txid into v_last
      from jobforge.all_attempts as a
     where a.txid >= v_from and a.txid < v_end and a.ended_at > v_since
     order by a.txid offset p_limit - 1 limit 1;
    if found then
        v_end := (v_last::text::numeric + 1)::text::xid8;
    end if;

    with ended as (
        select a.tenant_id, a.definition, a.queue, a.outcome, a.state, a.peak_memory_bytes,
               date_bin('1 minute', a.ended_at, '2000-01-01 00:00+00') as minute,
               -- Workers report this value; clamped so that the sums stay in range.
               least(greatest(a.cpu_ms, 0), 1000000000) as cpu_ms,
               greatest(date_part('epoch', a.started_at - a.queued_at) * 1000, 0) as wait_ms,
               date_part('epoch', a.ended_at - a.started_at) * 1000 as run_ms
          from jobforge.all_attempts as a
         where a.txid >= v_from and a.txid < v_end and a.ended_at > v_since
    ), counted as (
        select e.tenant_id, e.minute, e.definition, e.queue,
               count(*) filter (where e.state = 'succeeded') as succeeded,
               count(*) filter (where e.state in ('scheduled', 'queued', 'blocked')
                                  and e.outcome not in ('released', 'snoozed')) as failed,
               count(*) filter (where e.state = 'dead') as dead,
               count(*) filter (where e.state = 'canceled') as canceled,
               count(*) filter (where e.state in ('scheduled', 'queued', 'blocked')
                                  and e.outcome in ('released', 'snoozed')) as released,
               coalesce(sum(e.wait_ms), 0) as wait_ms, sum(e.run_ms) as run_ms,
               coalesce(sum(e.cpu_ms), 0) as cpu_ms, max(e.peak_memory_bytes) as peak_memory_bytes,
               array_agg(width_bucket(e.wait_ms, jobforge_private.duration_bounds()) + 1)
                   filter (where e.wait_ms is not null) as waits,
               array_agg(width_bucket(e.run_ms, jobforge_private.duration_bounds()) + 1) as runs
          from ended as e
         group by e.tenant_id, e.minute, e.definition, e.queue
    ), added as (
        insert into jobforge.minute_statistics as s (
               tenant_id, minute, succeeded, failed, dead, canceled, released, wait_ms, run_ms,
               cpu_ms, peak_memory_bytes, definition, queue, wait_histogram, run_histogram)
        select c.tenant_id, c.minute, c.succeeded, c.failed, c.dead, c.canceled, c.released,
               c.wait_ms, c.run_ms, c.cpu_ms, c.peak_memory_bytes, c.definition, c.queue,
               jobforge_private.count_buckets(c.waits), jobforge_private.count_buckets(c.runs)
          from counted as c
            on conflict (tenant_id, minute, definition, queue) do update
           set succeeded = s.succeeded + excluded.succeeded,
               failed = s.failed + excluded.failed,
               dead = s.dead + excluded.dead,
               canceled = s.canceled + excluded.canceled,
               released = s.released + excluded.released,
               wait_ms = s.wait_ms + excluded.wait_ms,
               run_ms = s.run_ms + excluded.run_ms,
               cpu_ms = s.cpu_ms + excluded.cpu_ms,
               peak_memory_bytes = greatest(s.peak_memory_bytes, excluded.peak_memory_bytes),
               wait_histogram = jobforge_private.add_histograms(
                                    s.wait_histogram, excluded.wait_histogram),
               run_histogram = jobforge_private.add_histograms(
                                   s.run_histogram, excluded.run_histogram)
    )
    select coalesce(sum(cardinality(c.runs)), 0) into v_read from counted as c;
    if v_is_foreign and v_last is null then
        update jobforge.statistics_position
           set txid = '0', restored_until = jobforge_private.newest_history();
    elsif v_read > 0 or v_from = '0' then
        update jobforge.statistics_position set txid = v_end;
    end if;
    return v_read;
end $$;
