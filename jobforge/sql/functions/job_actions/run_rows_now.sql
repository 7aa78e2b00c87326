-- Makes jobs that wait for their backoff ready now. Returns how many. The caller has locked the
-- rows.
create or replace function jobforge_private.run_rows_now(p_rows tid[]) returns bigint
language plpgsql
as $$
declare
    v_now timestamptz := jobforge_private.now();
    v_rescheduled bigint;
begin
    with hastened as (
        update jobforge.jobs as j
           set state = 'queued', run_at = v_now, queued_at = v_now
         where j.ctid = any (p_rows) and j.state || '' = 'scheduled'
        returning j.queue
    )
    select coalesce(sum(h.jobs), 0) into v_rescheduled
      from (select count(*) as jobs, jobforge_private.notify_channel('jobforge:' || d.queue)
              from hastened as d group by d.queue) as h;
    return v_rescheduled;
end $$;
