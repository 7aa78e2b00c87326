-- Applications call this: returns the number of a tenant's jobs by queue and state, and since when
-- the oldest queued one waits. Live states are counted now; succeeded and canceled jobs over the
-- last p_window_s, 100,000 at most. Raises JF001, JF002, JF006, JF014.
create or replace function jobforge.summarize(
    p_window_s double precision default 86400,
    p_tenant_id uuid default null
) returns table (queue text, state text, jobs bigint, oldest_queued_at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_tenant uuid := jobforge_private.require_tenant(p_tenant_id);
begin
    if p_window_s is null or not p_window_s between 0 and 31622400 then
        perform jobforge_private.refuse('JF002', 'window_s must be at most one year',
            '{"field": "window_s"}');
    end if;
    return query
    select j.queue, j.state, count(*), min(j.queued_at) filter (where j.state = 'queued')
      from jobforge.jobs as j
     where j.tenant_id = v_tenant
     group by j.queue, j.state
    union all
    select f.queue, f.state, count(*), null
      from (select h.queue, h.state from jobforge.finished_jobs as h
             where h.tenant_id = v_tenant
               and h.finished_at >= jobforge_private.now() - make_interval(secs => p_window_s)
             limit 100000) as f
     group by f.queue, f.state
     order by 1, 2;
end $$;
