-- Makes due jobs ready; called by every claim, so no process has to do it. One index probe when
-- nothing is due. Rows that another claim is promoting are skipped. The claim takes up to
-- p_limits[i] of the jobs of p_queues[i]; workers of queues with more promoted jobs are woken. When
-- the probe was slow (see plan_round: dead entries that cannot be cleaned), this session starts the
-- next ones a second back from where it was, for eighty times as long as the probe took, eight
-- seconds at most.
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
    -- Every login can change the setting: it cannot hold back due jobs for longer than this.
    v_until timestamptz := case when v_kept[2] > v_start and v_kept[1] < v_now
                                     and v_kept[2] < v_start + interval '10 seconds'
                                then v_kept[2] end;
    v_floor timestamptz := case when v_until is null then '-infinity' else v_kept[1] end;
    v_cost double precision;
    v_due tid[];
    v_woken bigint;
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
        select count(jobforge_private.notify_channel('jobforge:' || r.queue)) into v_woken
          from ready as r
         where r.jobs > coalesce((select sum(c.slots) from unnest(p_queues, p_limits)
                                         as c(name, slots) where c.name = r.queue), 0);
    end if;
    return cardinality(v_due);
end $$;
