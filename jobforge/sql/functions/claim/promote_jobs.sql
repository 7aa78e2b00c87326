-- Makes due scheduled jobs ready. Every claim calls this, so no process has to. Costs one index
-- probe if no job is due. Skips rows that another claim is promoting. The claim takes up to
-- p_limits[i] jobs of p_queues[i]; where more were promoted, the workers of the queue are notified.
-- If the probe was slow because of dead index entries, this session starts later probes one second
-- before the last one, for eighty times as long as the probe took, eight seconds at most. Returns
-- the number of promoted jobs.
create or replace function jobforge_private.promote_jobs(
    p_queues text[],
    p_limits integer[],
    p_limit integer default 1000
) returns integer
language plpgsql
as $$
declare
    v_start timestamptz := clock_timestamp();
    v_now timestamptz := jobforge_private.now();
    v_kept timestamptz[] := jobforge_private.load_promotion_floor();
    -- Every login can change the setting; this bounds how long it can delay due jobs.
    v_until timestamptz := case when v_kept[2] > v_start and v_kept[1] < v_now
                                     and v_kept[2] < v_start + interval '10 seconds'
                                then v_kept[2] end;
    v_floor timestamptz := case when v_until is null then '-infinity' else v_kept[1] end;
    v_cost double precision;
    v_due tid[];
    v_notified bigint;
begin
    v_due := array(
        select j.ctid
          from jobforge.jobs as j
         where j.state = 'scheduled' and j.run_at <= v_now and j.run_at >= v_floor
         order by j.run_at
         limit p_limit
           for update skip locked);
    v_cost := extract(epoch from clock_timestamp() - v_start);
    if v_floor = '-infinity' and v_cost > 0.001 and cardinality(v_due) < p_limit then
        v_until := v_start + make_interval(secs => v_cost + least(8, 80 * v_cost));
    end if;
    if v_until > v_start then
        perform set_config('jobforge.promoted',
            array[v_now - interval '1 second', v_until]::text, false);
    end if;
    if v_due <> '{}' then
        with promoted as (
            update jobforge.jobs as j
               set state = 'queued', queued_at = coalesce(j.queued_at, j.run_at)
             where j.ctid = any (v_due) and j.state || '' = 'scheduled'
            returning j.queue
        ), ready as (
            select p.queue, count(*) as jobs from promoted as p group by p.queue
        )
        select count(jobforge_private.notify_channel('jobforge:' || r.queue)) into v_notified
          from ready as r
         where r.jobs > coalesce((select sum(c.slots) from unnest(p_queues, p_limits)
                                         as c(name, slots) where c.name = r.queue), 0);
    end if;
    return cardinality(v_due);
end $$;
