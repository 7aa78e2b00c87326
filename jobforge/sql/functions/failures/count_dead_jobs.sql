-- Returns how many of a tenant's dead jobs have one fingerprint, when the first and last died, and
-- with which versions of their definition, the newest 20. `hourly` has one number for each of the
-- last 24 hours, the current one last. Reads the newest 10,000 jobs at most. Called by
-- list_failures, whose planner settings apply.
create or replace function jobforge_private.count_dead_jobs(
    p_tenant_id uuid, p_fingerprint text, p_queue text, p_since timestamptz
) returns table (
    jobs bigint, first_seen timestamptz, last_seen timestamptz, versions integer[],
    hourly integer[]
)
language plpgsql stable
as $$
#variable_conflict use_column
declare
    v_now timestamptz := jobforge_private.now();
    v_hours timestamptz[] := array(
        select v_now - make_interval(hours => ago) from generate_series(24, 1, -1) as ago);
begin
    return query
    with counted as materialized (
        select width_bucket(n.finished_at, v_hours) as hour, n.version, count(*) as jobs,
               min(n.finished_at) as first_seen, max(n.finished_at) as last_seen
          from (select j.queue, j.finished_at, j.version
                  from jobforge.jobs as j
                 where j.tenant_id = p_tenant_id and j.state = 'dead'
                   and j.fingerprint = p_fingerprint
                 order by j.id desc
                 limit 10000) as n
         where (p_queue is null or n.queue = p_queue)
           and (p_since is null or n.finished_at >= p_since)
         group by 1, 2
    )
    select sum(c.jobs)::bigint, min(c.first_seen), max(c.last_seen),
           array(select distinct k.version from counted as k order by 1 desc limit 20),
           array(select coalesce(sum(k.jobs), 0)::integer
                   from generate_series(1, 24) as h(hour)
                   left join counted as k on k.hour = h.hour
                  group by h.hour
                  order by h.hour)
      from counted as c;
end $$;
